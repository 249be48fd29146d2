"""Tables, from the cache: none of these waits for a catalog."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Caller, Viewer
from icepack.api.pagination import Sort, Wanted, after, closed, opened, select
from icepack.api.parameters import Limit, TableName
from icepack.api.presenters.tables import explained, shown_partition, stamps, timeline
from icepack.api.responses import Place, encoded, send
from icepack.api.schemas import examples
from icepack.api.schemas.examples import listed, running
from icepack.api.schemas.fleet import (
    HistogramView,
    HistoryView,
    PartitionPage,
    PlanView,
    SnapshotsView,
    TablePage,
    TableView,
)
from icepack.domain.access import Role
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.plan.score import score_partition
from icepack.domain.policy import Policy
from icepack.domain.ports.access import RunningJob, TableDocument
from icepack.domain.table import TableId
from icepack.errors import ConfigError, TableNotFound
from icepack.service.views.table_index import ListEntry

place = Place("tables")


@place.get("/tables", TablePage, examples.ANSWERS["tables"], role=Role.VIEWER, summary="Tables with their scores")
def list_tables(
    caller: Viewer,
    search: Annotated[str | None, Query(max_length=200, description="Part of the name, whatever its case.")] = None,
    catalog: Annotated[str | None, Query(max_length=2000, description="Only of this catalog.")] = None,
    namespace: Annotated[str | None, Query(max_length=2000, description="Only of this one; a glob is fine.")] = None,
    issue: Annotated[list[IssueCode] | None, Query(max_length=20, description="Only with one of these.")] = None,
    severity: Annotated[
        Literal["healthy", "info", "warning", "critical"] | None, Query(description="Only with such a worst issue.")
    ] = None,
    action: Annotated[ActionKind | None, Query(description="Only those for which this is recommended.")] = None,
    native_disabled: Annotated[
        bool | None, Query(description="Only those for which the native rewrite is off, or only the others.")
    ] = None,
    min_score: Annotated[int, Query(ge=0, le=100, description="Only with this score or more.")] = 0,
    max_score: Annotated[int, Query(ge=0, le=100, description="Only with this score or less.")] = 100,
    sort: Annotated[Sort, Query(description="`score` has the sickest first; with `-` it is the other way.")] = "score",
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=4000, description="`next_cursor` of the page before.")] = None,
) -> Response:
    """Filters narrow one another; `total` counts all pages; a cursor stays good when tables come and go."""
    off = caller.parts.figures.native_disabled()
    wanted = Wanted(
        search=search or "",
        catalog=catalog,
        namespace=namespace,
        issues=frozenset(issue or ()),
        severity=severity,
        action=action,
        min_score=min_score,
        max_score=max_score,
        native_disabled=native_disabled,
        off=frozenset() if native_disabled is None else frozenset(off),
    )
    listing = caller.parts.directory.listing().within(caller.sees)
    found = select(listing, wanted, sort)
    rest = found if cursor is None else after(found, sort, opened(cursor))
    page = rest[:limit]
    more = closed(page[-1], sort) if len(rest) > limit else None
    at_work = caller.parts.figures.running()
    texts = ",".join(
        _text(item, item.summary.table in off, at_work.get(item.summary.table) if at_work else None) for item in page
    )
    body = f'{{"tables":[{texts}],"total":{len(found)},"next_cursor":{json.dumps(more)}}}'
    return Response(body, media_type="application/json")


@place.get(
    "/tables/{table:path}/plan",
    PlanView,
    examples.ANSWERS["plan"],
    role=Role.VIEWER,
    summary="Dry run of a compaction",
)
def plan_table(caller: Viewer, table: TableName) -> Response:
    """Estimated for each partition from the cached status; no group names its files."""
    intake = caller.parts.intake
    cached = intake.known(_find(caller, table))
    return send(
        {
            "table_name": str(cached.table),
            "observed_at": cached.status.observed_at,
            "compaction": intake.plan(cached),
            "recommendation": cached.recommendation,
        }
    )


@place.get(
    "/tables/{table:path}/history",
    HistoryView,
    examples.ANSWERS["history"],
    role=Role.VIEWER,
    summary="Runs on a table, and its figures over time",
)
def table_history(
    caller: Viewer,
    table: TableName,
    limit: Limit = 20,
    before: Annotated[AwareDatetime | None, Query(description="Runs that began before this moment.")] = None,
) -> Response:
    """Runs newest first; `points` are for a chart, and come with the first page only."""
    found = _find(caller, table)
    runs = caller.parts.board.runs(found, limit=limit, before=before)
    points = caller.parts.board.points(found) if before is None else []
    return send({"table_name": str(found), "runs": runs.runs, "points": points, "next_before": runs.next_before})


@place.get(
    "/tables/{table:path}/snapshots",
    SnapshotsView,
    examples.ANSWERS["snapshots"],
    role=Role.VIEWER,
    summary="Snapshots, branches and tags",
)
def table_snapshots(caller: Viewer, table: TableName) -> Response:
    """As they were when the table was last looked at; those that icepack committed say by which run."""
    found, document = _document(caller, table)
    status = document.status
    entries = status["snapshots"]["entries"]
    known = caller.parts.board.committers(found, stamps(entries))
    return send(
        {
            "table_name": str(found),
            "observed_at": status["observed_at"],
            "snapshot_id": status["snapshot_id"],
            "snapshots": {**status["snapshots"], "entries": timeline(status, known)},
        }
    )


@place.get(
    "/tables/{table:path}/files/histogram",
    HistogramView,
    examples.ANSWERS["histogram"],
    role=Role.VIEWER,
    summary="Data files by size",
)
def table_histogram(caller: Viewer, table: TableName) -> Response:
    """Each bucket ends below `below_bytes`; the last has no end."""
    name, status = _status(caller, table)
    data = status["data"]
    kept = {key: data[key] for key in ("count", "bytes", "histogram", "small")}
    return send({**name, **kept, "target_file_bytes": status["target_file_bytes"]})


@place.get(
    "/tables/{table:path}/partitions",
    PartitionPage,
    examples.ANSWERS["partitions"],
    role=Role.VIEWER,
    summary="Partitions, the most urgent first",
)
def table_partitions(
    caller: Viewer,
    table: TableName,
    limit: Annotated[int, Query(ge=1, le=5000, description="At most so many.")] = 100,
    offset: Annotated[int, Query(ge=0, lt=2**31, description="Leave out so many.")] = 0,
) -> Response:
    """By how badly each wants compaction, from 0 to 1; and whether the next one takes it, and why."""
    intake = caller.parts.intake
    cached = intake.known(_find(caller, table))
    now = caller.parts.clock()
    scored = [(score_partition(item, now), item) for item in cached.status.partitions]
    scored.sort(key=lambda pair: (-pair[0].total, pair[1].key))
    why = intake.why(cached)
    page = [shown_partition(item, score, why[item.key]) for score, item in scored[offset : offset + limit]]
    more = offset + limit if len(scored) > offset + limit else None
    name = {"table_name": str(cached.table), "observed_at": cached.status.observed_at}
    return send({**name, "partitions": page, "total": len(scored), "next_offset": more})


@place.get(
    "/tables/{table:path}",
    TableView,
    examples.ANSWERS["table"],
    role=Role.VIEWER,
    summary="All that is known of a table",
)
def get_table(caller: Viewer, table: TableName) -> Response:
    """Partitions and snapshots have addresses of their own, and are left out of `status` here."""
    found, document = _document(caller, table)
    snapshots = {**document.status["snapshots"], "entries": []}
    return send(
        {
            "table": found,
            "table_name": str(found),
            "status": {**document.status, "partitions": [], "snapshots": snapshots},
            "health": document.health,
            "recommendation": document.recommendation,
            **explained(document),
            "policy": _policy(caller, found, document),
            "native_disabled": caller.parts.figures.native_disabled().get(found),
            "running": running(job) if (job := caller.parts.figures.running().get(found)) else None,
        }
    )


def _policy(caller: Caller, table: TableId, document: TableDocument) -> Policy | None:
    try:
        return caller.parts.agenda.policy_of(table, document.status["properties"])
    except ConfigError:
        return None


def _find(caller: Caller, text: str) -> TableId:
    return caller.parts.directory.listing().within(caller.sees).find(text)


def _document(caller: Caller, text: str) -> tuple[TableId, TableDocument]:
    table = _find(caller, text)
    document = caller.parts.board.table(table)
    if document is None:
        raise TableNotFound(f"No table matches '{table}'.", "It was dropped a moment ago.")
    return table, document


def _status(caller: Caller, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    table, document = _document(caller, text)
    return {"table_name": str(table), "observed_at": document.status["observed_at"]}, document.status


def _text(item: ListEntry, is_off: bool, job: RunningJob | None) -> str:
    """Made once for as long as the listing lasts, but for what may change meanwhile."""
    if not item.text:
        item.text = encoded(listed(item.summary)).decode()
    busy = "" if job is None else f',"running":{encoded(running(job)).decode()}'
    return f'{item.text[:-1]},"native_disabled":{"true" if is_off else "false"}{busy}}}'
