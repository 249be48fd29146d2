"""Remembers runs: columns for the questions asked of them, the whole record as one document."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select, union_all
from sqlalchemy.dialects import postgresql, sqlite

from icepack.domain.access import namespace_text
from icepack.domain.actions import ActionKind
from icepack.domain.plan.cost import CostEstimate
from icepack.domain.ports.engine import HistoryStore
from icepack.domain.recommendation.recommend import ExpectedEffect, PastRun
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import from_json, to_json
from icepack.domain.table import TableId
from icepack.store.admin.interrupted_runs import CutOff
from icepack.store.schema import runs
from icepack.store.sql.errors import plain_faults
from icepack.store.sql.text import storable
from icepack.store.sql.transaction import writing
from icepack.store.status_history import SqlStatusHistory


class SqlHistoryStore(SqlStatusHistory, HistoryStore):
    """The history in SQLite or PostgreSQL: runs, and how tables fared between them."""

    def save(self, record: RunRecord) -> None:
        """Insert the run, or replace what is known of it."""
        values = _values(record)
        with plain_faults(self._engine.url), writing(self._engine) as connection:
            connection.execute(_upsert(self._engine.dialect.name, values))

    def runs(
        self,
        *,
        table: TableId | None = None,
        kind: ActionKind | None = None,
        state: RunState | None = None,
        limit: int = 50,
    ) -> list[RunRecord]:
        """The newest runs first, by when they started; those that were cut off are marked first."""
        statement = _newest_runs(table, kind, state).limit(limit)
        with plain_faults(self._engine.url):
            CutOff(self._engine).mark()
            with self._engine.connect() as connection:
                documents = connection.scalars(statement).all()
        return [from_json(RunRecord, document) for document in documents]

    def past_runs(self, table: TableId) -> list[PastRun]:
        """The newest success of each kind, newest first."""
        with plain_faults(self._engine.url), self._engine.connect() as connection:
            rows = connection.execute(_last_successes(table)).all()
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


def _values(record: RunRecord) -> dict[str, Any]:
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
        "message": storable(record.message),
        "snapshot_id_after": record.after.snapshot_id if record.after else None,
        "changed_nothing": record.changed_nothing,
        "record": to_json(record),
        "namespace": namespace_text(record.table),
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
    """What left the table, and, apart from it, what left the storage: the same files, some time later."""
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


def _upsert(dialect: str, values: dict[str, Any]) -> Any:
    insert = postgresql.insert if dialect == "postgresql" else sqlite.insert
    changed = {name: value for name, value in values.items() if name not in ("job_id", "counted")}
    return insert(runs).values(values).on_conflict_do_update(index_elements=[runs.c.job_id], set_=changed)


def _newest_runs(table: TableId | None, kind: ActionKind | None, state: RunState | None) -> Select[Any]:
    wanted = {runs.c.table_name: table, runs.c.action: kind, runs.c.state: state}
    conditions = [column == str(value) for column, value in wanted.items() if value is not None]
    return select(runs.c.record).where(*conditions).order_by(runs.c.started_at.desc(), runs.c.job_id.desc())


def _last_successes(table: TableId) -> Any:
    """One index lookup per kind, however long the history is."""
    return union_all(*(select(_last_success(table, kind).subquery()) for kind in ActionKind))


def _last_success(table: TableId, kind: ActionKind) -> Select[Any]:
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
