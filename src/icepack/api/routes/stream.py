"""The stream of job changes, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from icepack.api.dependencies import Caller, Viewer
from icepack.api.errors import Unauthenticated
from icepack.api.responses import Router, encode_json
from icepack.api.schemas.examples.responses import STREAM
from icepack.api.sse import StreamEvent
from icepack.domain.access import Role

router = Router("jobs")

MEDIA_TYPE = "text/event-stream"


@router.get("/jobs/stream", None, STREAM, role=Role.VIEWER, media_type=MEDIA_TYPE, summary="Stream of job changes")
async def stream_jobs(
    request: Request,
    caller: Viewer,
    after: Annotated[int | None, Query(ge=0, lt=2**63, description="Start after the event with this number.")] = None,
    last_event_id: Annotated[
        str | None,
        Header(alias="Last-Event-ID", max_length=20, description="The same as `after`; browsers send it to resume."),
    ] = None,
) -> Response:
    """Sends `job` for every event of a job and `progress` while it runs. It ends after a while; clients reconnect."""
    start = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
    if start is not None and start >= 2**63:
        start = None
    max_seconds: float = request.app.state.stream_seconds
    visible = caller.visible_scopes
    events = caller.services.job_events.subscribe(visible, start, lambda: _is_authorized(caller))
    # Subscribe before the response starts, so that no event after its first byte is missed.
    await anext(events)
    return StreamingResponse(_render_stream(events, max_seconds), media_type=MEDIA_TYPE)


async def _render_stream(events: AsyncGenerator[StreamEvent | None, None], max_seconds: float) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    try:
        async with asyncio.timeout(max_seconds), aclosing(events):
            async for event in events:
                yield b": keep-alive\n\n" if event is None else _render_event(event)
    except TimeoutError:
        return


def _is_authorized(caller: Caller) -> bool:
    try:
        return caller.services.authenticator.authenticate(caller.credentials).principal == caller.principal
    except Unauthenticated:
        return False


def _render_event(event: StreamEvent) -> bytes:
    event_id = b"id: %d\n" % event.number if event.number is not None else b""
    return b"%sevent: %s\ndata: %s\n\n" % (event_id, event.kind.encode(), encode_json(event.document))
