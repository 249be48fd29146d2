"""Tables, from the table cache: no request waits for a catalog."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import AwareDatetime
from starlette.responses import Response

from icepack.api.dependencies import Caller, Limit, TableName, Viewer
from icepack.api.pagination import Sort, TableFilter, decode_cursor, encode_cursor, skip_to
from icepack.api.pagination import list_tables as list_entries
from icepack.api.presenters.tables import (
    collect_job_ids,
    present_partition,
    present_running_job,
    present_snapshots,
    present_table,
    render_list_entry,
)
from icepack.api.responses import Router, json_response
from icepack.api.schemas.examples.responses import RESPONSES
from icepack.api.schemas.tables import (
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
from icepack.domain.ports.queries import TableDocument
from icepack.domain.ports.table_cache import CachedTable
from icepack.domain.table import TableId
from icepack.errors import ConfigError, TableNotFound

router = Router("tables")


@router.get("/tables", TablePage, RESPONSES["tables"], role=Role.VIEWER, summary="List tables with their health scores")
def list_tables(
    caller: Viewer,
    search: Annotated[
        str | None, Query(max_length=200, description="Only tables whose name contains this; ignores case.")
    ] = None,
    catalog: Annotated[str | None, Query(max_length=2000, description="Only tables of this catalog.")] = None,
    namespace: Annotated[
        str | None, Query(max_length=2000, description="Only tables of this namespace; may be a glob.")
    ] = None,
    issue: Annotated[
        list[IssueCode] | None, Query(max_length=20, description="Only tables with one of these issues.")
    ] = None,
    severity: Annotated[
        Literal["healthy", "info", "warning", "critical"] | None,
        Query(description="Only tables whose worst issue has this severity."),
    ] = None,
    action: Annotated[ActionKind | None, Query(description="Only tables for which this action is recommended.")] = None,
    native_disabled: Annotated[
        bool | None, Query(description="Only tables whose native rewrite is disabled, or only those where it is not.")
    ] = None,
    min_score: Annotated[int, Query(ge=0, le=100, description="Only tables with at least this score.")] = 0,
    max_score: Annotated[int, Query(ge=0, le=100, description="Only tables with at most this score.")] = 100,
    sort: Annotated[
        Sort, Query(description="The sort key, ascending; `-` makes it descending. `score` has the worst first.")
    ] = "score",
    limit: Limit = 50,
    cursor: Annotated[str | None, Query(max_length=4000, description="The `next_cursor` of the previous page.")] = None,
) -> Response:
    """Returns the tables that match all filters; a cursor remains valid when tables are added or removed."""
    statistics = caller.services.statistics
    disabled = statistics.native_disabled()
    wanted = TableFilter(
        search=search or "",
        catalog=catalog,
        namespace=namespace,
        issues=frozenset(issue or ()),
        severity=severity,
        action=action,
        min_score=min_score,
        max_score=max_score,
        native_disabled=native_disabled,
        disabled_tables=frozenset() if native_disabled is None else frozenset(disabled),
    )
    listing = caller.services.table_index.listing().within(caller.visible_scopes)
    found = list_entries(listing, wanted, sort)
    remaining = found if cursor is None else skip_to(found, sort, decode_cursor(cursor))
    page = remaining[:limit]
    next_cursor = encode_cursor(page[-1], sort) if len(remaining) > limit else None
    running = statistics.running()
    items = [
        render_list_entry(entry, entry.summary.table in disabled, running.get(entry.summary.table)) for entry in page
    ]
    return json_response({"tables": items, "total": len(found), "next_cursor": next_cursor})


@router.get(
    "/tables/{table:path}/plan", PlanView, RESPONSES["plan"], role=Role.VIEWER, summary="Dry run of a compaction"
)
def plan_table(caller: Viewer, table: TableName) -> Response:
    """The plan is estimated by partition from the cached status; its groups do not list files."""
    submitter = caller.services.submitter
    cached = submitter.get_table(_find_table(caller, table))
    plan = submitter.plan(cached)
    return json_response({**_head(cached), "compaction": plan, "recommendation": cached.recommendation})


@router.get(
    "/tables/{table:path}/history",
    HistoryView,
    RESPONSES["history"],
    role=Role.VIEWER,
    summary="Runs on a table, and its totals over time",
)
def table_history(
    caller: Viewer,
    table: TableName,
    limit: Limit = 20,
    before: Annotated[AwareDatetime | None, Query(description="Only runs that started before this time.")] = None,
) -> Response:
    """Returns the newest runs first; only the first page has `points`, the data of a chart."""
    found, queries = _find_table(caller, table), caller.services.fleet_queries
    history = queries.runs(found, limit=limit, before=before)
    points = queries.points(found) if before is None else []
    document = {"table_name": str(found), "runs": history.runs, "points": points}
    return json_response({**document, "next_before": history.next_before})


@router.get(
    "/tables/{table:path}/snapshots",
    SnapshotsView,
    RESPONSES["snapshots"],
    role=Role.VIEWER,
    summary="Snapshots, branches and tags",
)
def table_snapshots(caller: Viewer, table: TableName) -> Response:
    """Returns the snapshots as of the last inspection; those that icepack committed have the id of the run."""
    found, document = _read_document(caller, table)
    status = document.status
    job_ids = collect_job_ids(status["snapshots"]["entries"])
    committers = caller.services.fleet_queries.committers(found, job_ids)
    return json_response(
        {
            "table_name": str(found),
            "observed_at": status["observed_at"],
            "snapshot_id": status["snapshot_id"],
            "snapshots": {**status["snapshots"], "entries": present_snapshots(status, committers)},
        }
    )


@router.get(
    "/tables/{table:path}/files/histogram",
    HistogramView,
    RESPONSES["histogram"],
    role=Role.VIEWER,
    summary="Data files by size",
)
def table_histogram(caller: Viewer, table: TableName) -> Response:
    """Each bucket ends below `below_bytes`; the last one is unbounded."""
    found, document = _read_document(caller, table)
    status = document.status
    sizes = {key: status["data"][key] for key in ("count", "bytes", "histogram", "small")}
    head = {"table_name": str(found), "observed_at": status["observed_at"]}
    return json_response({**head, **sizes, "target_file_bytes": status["target_file_bytes"]})


@router.get(
    "/tables/{table:path}/partitions",
    PartitionPage,
    RESPONSES["partitions"],
    role=Role.VIEWER,
    summary="Partitions, the most urgent first",
)
def table_partitions(
    caller: Viewer,
    table: TableName,
    limit: Annotated[int, Query(ge=1, le=5000, description="The maximum number of results.")] = 100,
    offset: Annotated[int, Query(ge=0, lt=2**31, description="The number of results to skip.")] = 0,
) -> Response:
    """Returns how urgently each partition needs compaction (0 to 1), and whether and why the next one selects it."""
    submitter = caller.services.submitter
    cached = submitter.get_table(_find_table(caller, table))
    now = caller.services.clock()
    scored = [(score_partition(partition, now), partition) for partition in cached.status.partitions]
    scored.sort(key=lambda pair: (-pair[0].total, pair[1].key))
    explanations = submitter.explain_partitions(cached)
    page = [
        present_partition(partition, score, explanations[partition.key])
        for score, partition in scored[offset : offset + limit]
    ]
    next_offset = offset + limit if len(scored) > offset + limit else None
    return json_response({**_head(cached), "partitions": page, "total": len(scored), "next_offset": next_offset})


@router.get("/tables/{table:path}", TableView, RESPONSES["table"], role=Role.VIEWER, summary="Get a table")
def get_table(caller: Viewer, table: TableName) -> Response:
    """Returns status, health, recommendation and policy; partitions and snapshots have their own URLs."""
    found, document = _read_document(caller, table)
    statistics = caller.services.statistics
    job = statistics.running().get(found)
    return json_response(
        {
            **present_table(found, document),
            "policy": _resolve_policy(caller, found, document),
            "native_disabled": statistics.native_disabled().get(found),
            "running": present_running_job(job) if job else None,
        }
    )


def _resolve_policy(caller: Caller, table: TableId, document: TableDocument) -> Policy | None:
    try:
        return caller.services.policies.resolve(table, document.status["properties"])
    except ConfigError:
        return None


def _find_table(caller: Caller, text: str) -> TableId:
    return caller.services.table_index.listing().within(caller.visible_scopes).find(text)


def _read_document(caller: Caller, text: str) -> tuple[TableId, TableDocument]:
    table = _find_table(caller, text)
    document = caller.services.fleet_queries.table(table)
    if document is None:
        raise TableNotFound(f"No table matches '{table}'.", "It was dropped a moment ago.")
    return table, document


def _head(cached: CachedTable) -> dict[str, Any]:
    return {"table_name": str(cached.table), "observed_at": cached.status.observed_at}
