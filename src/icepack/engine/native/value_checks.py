"""Decides which rewritten groups are compared by value, compares them, and remembers what that showed."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from icepack.domain.actions import Compact
from icepack.domain.ports.engine import RunContext
from icepack.domain.table import TableId
from icepack.domain.verification import (
    CheckReason,
    FileClass,
    GroupClasses,
    Mismatch,
    NativeDisabled,
    groups_to_compare,
)
from icepack.engine.java.errors import java_faults
from icepack.engine.native.coverage import TableFacts
from icepack.engine.native.jvm import JavaRewrite
from icepack.engine.native.kernel_version import kernel_version
from icepack.engine.native.tasks import Group
from icepack.engine.verification.rewrite_check import RewriteCheck, RewriteComparison
from icepack.errors import IcepackError
from icepack.kernel.executor import Answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Groups are compared together up to these limits, because every comparison costs some queries.
MOST_BYTES = 2**30
MOST_GROUPS = 64
# A report names so many inputs and differences; a group may have many thousands.
MOST_REPORTED = 200

Outputs = Callable[[Sequence[Group]], list[dict[str, Any]]]
"""What a commit of these groups would add."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group whose outputs are written and counted, but not committed."""

    group: Group
    classes: tuple[FileClass, ...]


class ValueChecks:
    """The checks of one attempt at one table."""

    def __init__(
        self,
        spark: SparkSession,
        table: Any,
        table_id: TableId,
        facts: TableFacts,
        action: Compact,
        context: RunContext,
    ) -> None:
        self._spark = spark
        self._table = table
        self._table_id = table_id
        self._table_uuid = str(table.uuid())
        self._facts = facts
        self._action = action
        self._context = context
        self._store = context.verification
        self._last_checked_at = self._store.last_checked_at(table_id, self._table_uuid) if self._store else None
        self.reasons: Counter[CheckReason] = Counter()
        self.compared: set[int] = set()
        """Numbers of the groups that were found equal."""
        self.rows_compared = 0
        self.uncheckable: dict[int, str] = {}
        """Group number → why Iceberg's reader could not read it. What cannot be compared is not committed."""
        self.new_classes: list[str] = []

    @property
    def obstacle(self) -> str | None:
        """Why no group of this table may be rewritten natively."""
        entry = self._store.native_disabled(self._table_id) if self._store else None
        if entry is None or entry.table_uuid not in ("", self._table_uuid):
            return None
        return f"the native rewrite is switched off for this table: {entry.reason}"

    def check(
        self, rewrite: JavaRewrite, groups: Sequence[Group], made: Mapping[int, Sequence[Answer]], outputs: Outputs
    ) -> Mismatch | None:
        """Compares the groups that are due. After a mismatch the native rewrite is switched off for the table."""
        ready = [Rewritten(group, classes_of(group, made[group.number], self._facts, self._action)) for group in groups]
        due = self._due(ready)
        checker = RewriteCheck(self._spark, self._table, self._facts, rewrite)
        for batch in _batches([item for item in ready if item.group.number in due]):
            self._context.check()
            mismatch = self._compare(checker, batch, outputs)
            if mismatch is not None:
                self._disable(mismatch)
                return mismatch
            self.reasons.update(due[number] for item in batch if (number := item.group.number) in self.compared)
        return None

    def _due(self, ready: Sequence[Rewritten]) -> dict[int, CheckReason]:
        trusted = frozenset(self.new_classes)
        if self._store is not None:
            trusted = self._store.trusted_classes(self._table_id, self._table_uuid, kernel_version())
        return groups_to_compare(
            [
                GroupClasses(number=item.group.number, class_ids=frozenset(each.id for each in item.classes))
                for item in ready
            ],
            level=self._action.proof,
            trusted=trusted,
            last_checked_at=self._last_checked_at,
            now=self._context.now,
            seed=str(self._context.stamp.job_id),
        )

    def _compare(self, checker: RewriteCheck, batch: Sequence[Rewritten], outputs: Outputs) -> Mismatch | None:
        comparison = self._comparison(checker, batch, outputs)
        if comparison is not None and comparison.is_equal:
            self._trust(batch, comparison.rows_before)
            return None
        if len(batch) > 1:
            # Together they only say that something is wrong; one by one they say with which group.
            found = (self._compare(checker, [item], outputs) for item in batch)
            mismatch = next((one for one in found if one is not None), None)
            if mismatch is not None or comparison is None:
                return mismatch
        return None if comparison is None else self._mismatch(batch, comparison, checker)

    def _comparison(
        self, checker: RewriteCheck, batch: Sequence[Rewritten], outputs: Outputs
    ) -> RewriteComparison | None:
        """None where Iceberg's reader fails on the files."""
        groups = [item.group for item in batch]
        try:
            with java_faults("Comparing values"):
                return checker.compare([path for group in groups for path in group.paths], outputs(groups))
        except IcepackError as exc:
            self._context.check()
            if len(groups) == 1:
                self.uncheckable[groups[0].number] = str(exc)
            log.warning("values of %s could not be compared: %s", self._table_id, exc)
            return None

    def _trust(self, batch: Sequence[Rewritten], rows: int) -> None:
        classes = {each.id: each for item in batch for each in item.classes}
        self.compared |= {item.group.number for item in batch}
        self.rows_compared += rows
        self.new_classes += [number for number in classes if number not in self.new_classes]
        self._last_checked_at = self._context.now
        if self._store is not None:
            self._store.record_check(
                self._table_id,
                self._table_uuid,
                list(classes.values()),
                kernel_version=kernel_version(),
                rows=rows,
                checked_at=self._context.now,
            )

    def _mismatch(self, batch: Sequence[Rewritten], found: RewriteComparison, checker: RewriteCheck) -> Mismatch:
        paths = [path for item in batch for path in item.group.paths]
        classes = {each.id: each for item in batch for each in item.classes}
        return Mismatch(
            snapshot_id=checker.snapshot_id,
            partition=batch[0].group.partition.path,
            classes=tuple(classes.values()),
            files=tuple(paths[:MOST_REPORTED]),
            rows_before=found.rows_before,
            rows_after=found.rows_after,
            differences=found.differences[:MOST_REPORTED],
            kernel_version=kernel_version(),
        )

    def _disable(self, mismatch: Mismatch) -> None:
        reason = describe(mismatch)
        log.error("native rewrite of %s differs from its inputs and was not committed: %s", self._table_id, reason)
        if self._store is not None:
            self._store.disable_native(
                NativeDisabled(
                    table=self._table_id,
                    table_uuid=self._table_uuid,
                    disabled_at=self._context.now,
                    reason=reason,
                    job_id=self._context.stamp.job_id,
                    mismatch=mismatch,
                )
            )


def describe(mismatch: Mismatch) -> str:
    columns = ", ".join(mismatch.columns[:5]) + (", …" if len(mismatch.columns) > 5 else "")
    return f"values of {columns} differed after a rewrite of snapshot {mismatch.snapshot_id}"


def classes_of(group: Group, answers: Sequence[Answer], facts: TableFacts, action: Compact) -> tuple[FileClass, ...]:
    """How the files were written, as the tasks saw it, and how the table has them read and written."""
    around = {
        "schema_id": facts.schema.get("schema-id"),
        "spec_id": facts.spec_id,
        "format_version": facts.format_version,
        "deletes": sorted({delete.kind for delete in group.deletes.values()}),
        "layout": str(action.layout),
    }
    seen = [{**each.description, **around} for answer in answers if answer.written for each in answer.written.classes]
    found = {class_id(description): description for description in seen}
    return tuple(FileClass(number, description) for number, description in sorted(found.items()))


def class_id(description: Mapping[str, Any]) -> str:
    text = json.dumps(description, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _batches(items: Sequence[Rewritten]) -> Iterator[list[Rewritten]]:
    batch: list[Rewritten] = []
    for item in items:
        size = sum(each.group.bytes for each in batch)
        if batch and (len(batch) >= MOST_GROUPS or size + item.group.bytes > MOST_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
