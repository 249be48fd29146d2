"""The stream of job changes, as server-sent events: the one route that waits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from icepack.api.dependencies import Caller, Viewer
from icepack.api.refusals import Unauthenticated
from icepack.api.responses import Place
from icepack.api.schemas import examples
from icepack.api.sse import Item
from icepack.domain.access import Role

place = Place("jobs")

MEDIA_TYPE = "text/event-stream"


@place.get(
    "/jobs/stream",
    None,
    examples.STREAM,
    role=Role.VIEWER,
    media_type=MEDIA_TYPE,
    summary="Follow all jobs",
)
async def stream_jobs(
    request: Request,
    caller: Viewer,
    after: Annotated[int | None, Query(ge=0, lt=2**63, description="Begin after the event of this number.")] = None,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=20, description="The same, as browsers send it.")
    ] = None,
) -> Response:
    """`job` for every step of a job's story, `progress` while it runs. It ends after a while; browsers come back."""
    begin = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
    if begin is not None and begin >= 2**63:
        begin = None
    longest: float = request.app.state.stream_seconds
    items = caller.parts.news.listen(caller.sees, begin, lambda: _is_welcome(caller))
    await anext(items)  # before the answer begins: what happens after its first byte is told
    return StreamingResponse(_lines(items, longest), media_type=MEDIA_TYPE)


async def _lines(items: AsyncGenerator[Item | None, None], longest: float) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    try:
        async with asyncio.timeout(longest), aclosing(items):
            async for item in items:
                yield b": still here\n\n" if item is None else _line(item)
    except TimeoutError:
        return


def _is_welcome(caller: Caller) -> bool:
    try:
        return caller.parts.doorman.identify(caller.credentials).principal == caller.principal
    except Unauthenticated:
        return False


def _line(item: Item) -> bytes:
    number = f"id: {item.number}\n" if item.number is not None else ""
    return f"{number}event: {item.kind}\ndata: {json.dumps(item.document, separators=(',', ':'))}\n\n".encode()
