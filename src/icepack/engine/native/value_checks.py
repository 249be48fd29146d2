"""Decides which rewritten groups are compared by value, compares them, and stores the results."""

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
    select_groups_to_compare,
)
from icepack.engine.java.errors import wrap_java_errors
from icepack.engine.native.java_rewrite import JavaRewrite
from icepack.engine.native.kernel_version import kernel_version
from icepack.engine.native.table_facts import TableFacts
from icepack.engine.native.tasks import RewriteGroup
from icepack.engine.verification.rewrite_check import RewriteCheck, RewriteComparison
from icepack.errors import IcepackError
from icepack.kernel.executor import TaskResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Groups are compared together up to these limits, because every comparison needs several queries.
MAX_BATCH_BYTES = 2**30
MAX_BATCH_GROUPS = 64
# The maximum number of inputs and differences in a report; a group may have many thousands.
MAX_REPORTED = 200

# Returns descriptions of the files that a commit of these groups would add.
DescribeOutputs = Callable[[Sequence[RewriteGroup]], list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class WrittenGroup:
    """A group whose outputs are written, with correct row counts, but not committed."""

    group: RewriteGroup
    classes: tuple[FileClass, ...]


class ValueChecks:
    """The value checks of one compaction attempt."""

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
        # Numbers of the groups whose values are equal.
        self.compared: set[int] = set()
        self.rows_compared = 0
        # Why Iceberg's reader could not read a group, by group number. Such a group is not committed.
        self.uncheckable: dict[int, str] = {}
        self.new_classes: list[str] = []

    @property
    def fallback_reason(self) -> str | None:
        """Why no group of this table may be rewritten natively."""
        entry = self._store.native_disabled(self._table_id) if self._store else None
        if entry is None or entry.table_uuid not in ("", self._table_uuid):
            return None
        return f"the native rewrite is disabled for this table: {entry.reason}"

    def check(
        self,
        rewrite: JavaRewrite,
        groups: Sequence[RewriteGroup],
        results: Mapping[int, Sequence[TaskResult]],
        describe_outputs: DescribeOutputs,
    ) -> Mismatch | None:
        """Compares the groups that are due for a check; a mismatch disables the native rewrite for the table."""
        written = [
            WrittenGroup(group, find_classes(group, results[group.number], self._facts, self._action))
            for group in groups
        ]
        due = self._select_due(written)
        checker = RewriteCheck(self._spark, self._table, self._facts, rewrite)
        for batch in _split_into_batches([item for item in written if item.group.number in due]):
            self._context.check()
            mismatch = self._compare(checker, batch, describe_outputs)
            if mismatch is not None:
                self._disable(mismatch)
                return mismatch
            self.reasons.update(due[number] for item in batch if (number := item.group.number) in self.compared)
        return None

    def _select_due(self, written: Sequence[WrittenGroup]) -> dict[int, CheckReason]:
        trusted = frozenset(self.new_classes)
        if self._store is not None:
            trusted = self._store.trusted_classes(self._table_id, self._table_uuid, kernel_version())
        return select_groups_to_compare(
            [
                GroupClasses(
                    number=item.group.number, class_ids=frozenset(file_class.id for file_class in item.classes)
                )
                for item in written
            ],
            level=self._action.proof,
            trusted=trusted,
            last_checked_at=self._last_checked_at,
            now=self._context.now,
            seed=str(self._context.stamp.job_id),
        )

    def _compare(
        self, checker: RewriteCheck, batch: Sequence[WrittenGroup], describe_outputs: DescribeOutputs
    ) -> Mismatch | None:
        comparison = self._try_compare(checker, batch, describe_outputs)
        if comparison is not None and comparison.is_equal:
            self._record_equal(batch, comparison.rows_before)
            return None
        if len(batch) > 1:
            # Compare the groups one by one in order to find the group that differs.
            found = (self._compare(checker, [item], describe_outputs) for item in batch)
            mismatch = next((item for item in found if item is not None), None)
            if mismatch is not None or comparison is None:
                return mismatch
        return None if comparison is None else self._build_mismatch(batch, comparison, checker)

    def _try_compare(
        self, checker: RewriteCheck, batch: Sequence[WrittenGroup], describe_outputs: DescribeOutputs
    ) -> RewriteComparison | None:
        """Returns None if Iceberg's reader cannot read the files."""
        groups = [item.group for item in batch]
        try:
            with wrap_java_errors("Comparing values"):
                return checker.compare([path for group in groups for path in group.paths], describe_outputs(groups))
        except IcepackError as exc:
            self._context.check()
            if len(groups) == 1:
                self.uncheckable[groups[0].number] = str(exc)
            log.warning("could not compare values of %s: %s", self._table_id, exc)
            return None

    def _record_equal(self, batch: Sequence[WrittenGroup], rows: int) -> None:
        classes = {file_class.id: file_class for item in batch for file_class in item.classes}
        self.compared |= {item.group.number for item in batch}
        self.rows_compared += rows
        self.new_classes += [class_id for class_id in classes if class_id not in self.new_classes]
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

    def _build_mismatch(
        self, batch: Sequence[WrittenGroup], found: RewriteComparison, checker: RewriteCheck
    ) -> Mismatch:
        paths = [path for item in batch for path in item.group.paths]
        classes = {file_class.id: file_class for item in batch for file_class in item.classes}
        return Mismatch(
            snapshot_id=checker.snapshot_id,
            partition=batch[0].group.partition.path,
            classes=tuple(classes.values()),
            files=tuple(paths[:MAX_REPORTED]),
            rows_before=found.rows_before,
            rows_after=found.rows_after,
            differences=found.differences[:MAX_REPORTED],
            kernel_version=kernel_version(),
        )

    def _disable(self, mismatch: Mismatch) -> None:
        reason = describe_mismatch(mismatch)
        log.error(
            "outputs of the native rewrite of %s differ from the inputs and were not committed: %s",
            self._table_id,
            reason,
        )
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


def describe_mismatch(mismatch: Mismatch) -> str:
    columns = ", ".join(mismatch.columns[:5]) + (", …" if len(mismatch.columns) > 5 else "")
    return f"values of {columns} differed after a rewrite of snapshot {mismatch.snapshot_id}"


def find_classes(
    group: RewriteGroup, results: Sequence[TaskResult], facts: TableFacts, action: Compact
) -> tuple[FileClass, ...]:
    """The file classes of a group: how the tasks found its files encoded, and the table settings for the rewrite."""
    settings = {
        "schema_id": facts.schema.get("schema-id"),
        "spec_id": facts.spec_id,
        "format_version": facts.format_version,
        "deletes": sorted({delete.kind for delete in group.deletes.values()}),
        "layout": str(action.layout),
    }
    counts = [count for result in results if result.written for count in result.written.classes]
    descriptions = [{**count.description, **settings} for count in counts]
    found = {compute_class_id(description): description for description in descriptions}
    return tuple(FileClass(class_id, description) for class_id, description in sorted(found.items()))


def compute_class_id(description: Mapping[str, Any]) -> str:
    text = json.dumps(description, sort_keys=True, default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _split_into_batches(items: Sequence[WrittenGroup]) -> Iterator[list[WrittenGroup]]:
    batch: list[WrittenGroup] = []
    for item in items:
        size = sum(other.group.bytes for other in batch)
        if batch and (len(batch) >= MAX_BATCH_GROUPS or size + item.group.bytes > MAX_BATCH_BYTES):
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch
