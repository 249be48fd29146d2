"""The history of runs in SQLite or PostgreSQL. Implements the port `HistoryStore`.

The whole record is stored as one JSON document; values that queries use have columns of their own.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select, union_all

from icepack.domain.access import format_namespace
from icepack.domain.actions import ActionKind
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.ports.history import HistoryStore
from icepack.domain.recommendation import ExpectedEffect, PastRun
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.store.admin.interrupted_runs import InterruptedRuns
from icepack.store.schema import runs
from icepack.store.sql.errors import translate_errors
from icepack.store.sql.text import clean_text
from icepack.store.sql.transaction import write_transaction
from icepack.store.sql.upsert import upsert
from icepack.store.status_history import SqlStatusHistory


class SqlHistoryStore(SqlStatusHistory, HistoryStore):
    """Runs, and the statistics and health of tables over time."""

    def save(self, record: RunRecord) -> None:
        """Insert the run, or replace its record; whether it was counted in the metrics is kept."""
        statement = upsert(runs, self._engine.dialect, keep={"counted"})
        with translate_errors(self._engine.url), write_transaction(self._engine) as connection:
            connection.execute(statement, _to_row(record))

    def runs(
        self,
        *,
        table: TableId | None = None,
        kind: ActionKind | None = None,
        state: RunState | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """Runs, newest first by start time; interrupted runs are marked as failed before."""
        statement = _select_runs(table, kind, state).limit(limit)
        with translate_errors(self._engine.url):
            InterruptedRuns(self._engine).mark()
            with self._engine.connect() as connection:
                documents = connection.scalars(statement).all()
        return [from_json(RunRecord, document) for document in documents]

    def past_runs(self, table: TableId) -> list[PastRun]:
        """The last success of each kind of action, newest first."""
        with translate_errors(self._engine.url), self._engine.connect() as connection:
            rows = connection.execute(_select_last_successes(table)).all()
        found = [
            PastRun(
                kind=ActionKind(row.action),
                finished_at=row.finished_at,
                snapshot_id_after=row.snapshot_id_after,
                changed_nothing=row.changed_nothing,
                table_uuid=row.table_uuid,
            )
            for row in rows
        ]
        return sorted(found, key=lambda run: run.finished_at, reverse=True)

    def close(self) -> None:
        self._engine.dispose()


def _to_row(record: RunRecord) -> dict[str, Any]:
    return {
        "job_id": record.job_id,
        "catalog": record.table.catalog,
        "table_name": str(record.table),
        "table_uuid": record.table_uuid,
        "action": record.kind.value,
        "state": record.state.value,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "attempts": record.attempts,
        "message": clean_text(record.message),
        "snapshot_id_after": record.after.snapshot_id if record.after else None,
        "changed_nothing": record.changed_nothing,
        "record": to_json(record),
        "namespace": format_namespace(record.table),
        **_costs(record),
        **_effects(record),
        "counted": False,
    }


def _costs(record: RunRecord) -> dict[str, Any]:
    estimate = record.estimate or CostEstimate()
    return {
        "estimated_dollars": estimate.dollars,
        "estimated_seconds": estimate.duration_seconds,
        "realised_seconds": record.realised_seconds,
        "get_requests": estimate.get_requests,
        "put_requests": estimate.put_requests,
    }


def _effects(record: RunRecord) -> dict[str, int]:
    """What was removed from the table and, separately, from storage: the same files are deleted there later."""
    effect, expected = record.effect, record.expected or ExpectedEffect()
    return {
        "estimated_files_removed": expected.files_removed + expected.delete_files_removed,
        "files_removed": effect.files_rewritten - effect.files_added + effect.delete_files_removed,
        "estimated_bytes_rewritten": expected.bytes_rewritten,
        "bytes_rewritten": effect.bytes_rewritten,
        "bytes_removed": effect.bytes_rewritten - effect.bytes_added,
        "files_deleted": effect.files_deleted,
        "bytes_deleted": effect.bytes_deleted,
    }


def _select_runs(table: TableId | None, kind: ActionKind | None, state: RunState | None) -> Select[Any]:
    wanted = {runs.c.table_name: table, runs.c.action: kind, runs.c.state: state}
    conditions = [column == str(value) for column, value in wanted.items() if value is not None]
    return select(runs.c.record).where(*conditions).order_by(runs.c.started_at.desc(), runs.c.job_id.desc())


def _select_last_successes(table: TableId) -> Any:
    """One index lookup per kind, independent of the length of the history."""
    return union_all(*(select(_select_last_success(table, kind).subquery()) for kind in ActionKind))


def _select_last_success(table: TableId, kind: ActionKind) -> Select[Any]:
    return (
        select(runs.c.action, runs.c.finished_at, runs.c.snapshot_id_after, runs.c.changed_nothing, runs.c.table_uuid)
        .where(
            runs.c.table_name == str(table),
            runs.c.state == RunState.SUCCEEDED.value,
            runs.c.action == kind.value,
            runs.c.finished_at.is_not(None),
        )
        .order_by(runs.c.finished_at.desc())
        .limit(1)
    )
