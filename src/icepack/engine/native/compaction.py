"""Compacts a table with the native rewrite; groups that it does not support are left to Spark's procedure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from icepack import __version__
from icepack.domain.actions import Compact
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.ports.engine import Progress, RunContext
from icepack.domain.table import TableId
from icepack.domain.verification import NativeFailure, ValueProof
from icepack.engine.native.executors import get_executor_resources
from icepack.engine.native.fallback import group_fallback_reason, table_fallback_reason
from icepack.engine.native.java_rewrite import JavaRewrite
from icepack.engine.native.job import (
    TaskProgress,
    TaskProgressCallback,
    kernel_fallback_reason,
    list_possible_outputs,
    may_have_failed_attempts,
    run_tasks,
)
from icepack.engine.native.kernel_version import kernel_version
from icepack.engine.native.ordering import resolve_ordering
from icepack.engine.native.outcome import MAX_REPORTED, CompactionOutcome
from icepack.engine.native.outputs import build_commit_request, check_row_counts, delete_outputs, group_results
from icepack.engine.native.table_facts import read_table_facts
from icepack.engine.native.tasks import RewriteGroup, build_tasks, sort_by_age
from icepack.engine.native.value_checks import ValueChecks
from icepack.errors import CommitConflict, CommitStateUnknown
from icepack.kernel.executor import TaskAssignment, TaskResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# The share of a task's memory that deletes may use.
DELETE_MEMORY_SHARE = 0.25
# Iceberg's default for `partial-progress.max-commits`.
DEFAULT_MAX_COMMITS = 10
MISMATCH_REASON = "values differed after the native rewrite"

# The results of the tasks by group number.
Results = Mapping[int, list[TaskResult]]


class NativeCompaction:
    """One attempt to compact a table, planned from one snapshot."""

    def __init__(
        self,
        spark: SparkSession,
        table_id: TableId,
        table: Any,
        action: Compact,
        context: RunContext,
        plan: CompactionPlan,
    ) -> None:
        self._spark = spark
        self._table = table
        self._action = action
        self._context = context
        self._plan = plan
        self._facts = read_table_facts(spark, table)
        self._ordering = resolve_ordering(spark, table, self._facts, action)
        self._resources = get_executor_resources(spark)
        self._checks = ValueChecks(spark, table, table_id, self._facts, action, context)
        self.outcome = CompactionOutcome()

    def run(self) -> CompactionOutcome:
        reason = self._fallback_reason()
        if reason is not None:
            self.outcome.fallbacks = dict.fromkeys(range(len(self._plan.groups)), reason)
            return self.outcome
        self._context.reports_progress.set()
        paths = [path for group in self._plan.groups for path in group.paths]
        rewrite = JavaRewrite(self._spark, self._table, int(self._plan.snapshot_id or 0), paths)
        for batch in self._split_into_batches(self._supported_groups(rewrite)):
            self._context.check()
            if self.outcome.mismatch is not None:
                self.outcome.fallbacks |= {group.number: MISMATCH_REASON for group in batch}
            else:
                self._rewrite_batch(rewrite, batch)
        return self.outcome

    def proof(self) -> ValueProof:
        """What was verified for the committed groups, and how many groups were left to Spark."""
        return ValueProof(
            level=self._action.proof,
            groups=len(self.outcome.native),
            groups_compared=len(self._checks.compared & self.outcome.native.keys()),
            rows_compared=self._checks.rows_compared,
            spark_groups=len(self.outcome.fallbacks),
            reasons={str(reason): count for reason, count in self._checks.reasons.items()},
            new_classes=tuple(self._checks.new_classes),
            failures=tuple(self.outcome.failures[:MAX_REPORTED]),
            mismatch=self.outcome.mismatch,
            kernel_version=kernel_version(),
        )

    def _fallback_reason(self) -> str | None:
        """Why no group of the table can be rewritten natively."""
        return (
            self._checks.fallback_reason
            or table_fallback_reason(self._facts, self._action)
            or self._ordering.fallback_reason
            or self._resources.fallback_reason
            or kernel_fallback_reason(self._spark)
        )

    def _supported_groups(self, rewrite: JavaRewrite) -> list[RewriteGroup]:
        found = []
        delete_limit_bytes = int(self._resources.task_bytes * DELETE_MEMORY_SHARE)
        for number, planned in enumerate(self._plan.groups):
            files = sort_by_age(rewrite.files[path] for path in planned.paths if path in rewrite.files)
            deletes = {index: rewrite.deletes[index] for file in files for index in file.deletes}
            group = RewriteGroup(number=number, partition=planned.partition, files=files, deletes=deletes)
            reason = (
                "files that the snapshot does not have"
                if len(files) < len(planned.paths)
                else group_fallback_reason(self._facts, files, deletes.values(), delete_limit_bytes)
                or self._ordering.group_fallback_reason(group, self._resources.task_bytes)
            )
            if reason is None:
                found.append(group)
            else:
                self.outcome.fallbacks[number] = reason
        return found

    def _split_into_batches(self, groups: list[RewriteGroup]) -> list[list[RewriteGroup]]:
        """One batch, or with partial progress about as many as the allowed number of commits."""
        if not groups:
            return []
        options = self._action.options
        is_partial = self._action.partial_progress or options.get("partial-progress.enabled", "").lower() == "true"
        if not is_partial:
            return [groups]
        size = -(-len(groups) // int(options.get("partial-progress.max-commits", DEFAULT_MAX_COMMITS)))
        return [groups[start : start + size] for start in range(0, len(groups), size)]

    def _rewrite_batch(self, rewrite: JavaRewrite, groups: Sequence[RewriteGroup]) -> None:
        results = group_results(self._run_tasks(self._build_tasks(rewrite, groups), groups))
        try:
            self._check_and_commit(rewrite, groups, results)
        except CommitStateUnknown:
            # The outputs may be part of the table, so deleting them could delete rows.
            raise
        except BaseException:
            uncommitted = [group.number for group in groups if group.number not in self.outcome.native]
            self._delete_written(result for number in uncommitted for result in results[number])
            raise

    def _build_tasks(self, rewrite: JavaRewrite, groups: Sequence[RewriteGroup]) -> list[TaskAssignment]:
        stamp = self._context.stamp
        tasks = [
            task
            for group in groups
            for task in build_tasks(
                group,
                rewrite,
                self._facts,
                target_bytes=self._plan.target_file_bytes,
                name=f"icepack-{stamp.job_id}-{stamp.attempt}-{stamp.batch}",
                sort_order=self._ordering.json,
                memory_bytes=self._resources.task_bytes,
            )
        ]
        threads = self._resources.threads_per_task(len(tasks))
        return [replace(item, task=replace(item.task, threads=threads)) for item in tasks]

    def _run_tasks(self, tasks: Sequence[TaskAssignment], groups: Sequence[RewriteGroup]) -> list[TaskResult]:
        """Returns the results of the successful attempts, and deletes the outputs of the others."""
        report = self._progress_reporter()
        try:
            results = run_tasks(self._spark, tasks, self._facts.file_io_properties, report)
        except BaseException:
            delete_outputs(self._table, list_possible_outputs(self._spark, tasks))
            raise
        if may_have_failed_attempts(self._spark, results):
            kept = {file.path for result in results if result.written for file in result.written.files}
            possible = list_possible_outputs(self._spark, tasks)
            delete_outputs(self._table, (path for path in possible if path not in kept))
        if not any(result.missing_file for result in results):
            files, size = sum(len(group.files) for group in groups), sum(group.bytes for group in groups)
            report(TaskProgress(files, size, len(groups)))
        return results

    def _check_and_commit(self, rewrite: JavaRewrite, groups: Sequence[RewriteGroup], results: Results) -> None:
        missing = [result.missing_file for group in groups for result in results[group.number] if result.missing_file]
        if missing:
            raise CommitConflict(f"A planned file no longer exists: {missing[0]}")
        written = []
        for group in groups:
            if self._is_written(group, results[group.number]):
                check_row_counts(group, results[group.number])
                written.append(group)
        verified = self._filter_verified(rewrite, written, results) if written else []
        if verified:
            self._commit(rewrite, verified, results)

    def _is_written(self, group: RewriteGroup, results: Sequence[TaskResult]) -> bool:
        """Returns False, and deletes the outputs of the whole group, if one of its tasks wrote nothing."""
        damaged = next((result.corrupt_page for result in results if result.corrupt_page), "")
        unsupported = next((result.unsupported for result in results if result.unsupported), "")
        error = next((result.error for result in results if result.error), "")
        if not (damaged or unsupported or error):
            return True
        if damaged:
            self.outcome.damaged[group.number] = damaged
            log.error("%s: %s", self._table.name(), damaged)
        elif unsupported:
            self.outcome.fallbacks[group.number] = unsupported
        else:
            self.outcome.fallbacks[group.number] = f"the native rewrite failed: {error}"
            self.outcome.failures.append(NativeFailure(partition=group.partition.path, error=error))
            log.warning("native rewrite of a group of %s failed, Spark rewrites it: %s", self._table.name(), error)
        self._delete_written(results)
        return False

    def _filter_verified(
        self, rewrite: JavaRewrite, groups: list[RewriteGroup], results: Results
    ) -> list[RewriteGroup]:
        """The groups that may be committed; after a mismatch none of the batch, so that Spark rewrites them all."""

        def describe_outputs(of: Sequence[RewriteGroup]) -> list[dict[str, Any]]:
            return build_commit_request(of, results, self._ordering.is_table_order)[1]

        self.outcome.mismatch = self._checks.check(rewrite, groups, results, describe_outputs)
        rejected = {number: f"values could not be compared: {why}" for number, why in self._checks.uncheckable.items()}
        if self.outcome.mismatch is not None:
            rejected = {group.number: MISMATCH_REASON for group in groups}
        for group in groups:
            if group.number in rejected:
                self.outcome.fallbacks[group.number] = rejected[group.number]
                self._delete_written(results[group.number])
        return [group for group in groups if group.number not in rejected]

    def _commit(self, rewrite: JavaRewrite, groups: list[RewriteGroup], results: Results) -> None:
        """Commits the groups; after a conflict, commits again without the groups that another writer has changed."""
        while groups:
            self._context.check()
            request = build_commit_request(groups, results, self._ordering.is_table_order)
            try:
                rewrite.commit(*request, self._summary(groups, results))
            except CommitConflict:
                groups, invalidated = self._split_by_validity(rewrite, groups)
                if not invalidated:
                    raise
                for group in invalidated:
                    self.outcome.invalidated.add(group.number)
                    self._delete_written(results[group.number])
            else:
                self._record_commit(groups, results)
                return

    def _record_commit(self, groups: Sequence[RewriteGroup], results: Results) -> None:
        for group in groups:
            self.outcome.native[group.number] = group
            written = [result.written for result in results[group.number] if result.written]
            self.outcome.copied_bytes += sum(item.copied_bytes for item in written)

    def _split_by_validity(
        self, rewrite: JavaRewrite, groups: Sequence[RewriteGroup]
    ) -> tuple[list[RewriteGroup], list[RewriteGroup]]:
        """Separates the groups whose files and deletes are unchanged from those that another writer has changed."""
        self._table.refresh()
        snapshot = self._table.currentSnapshot()
        paths = [path for group in groups for path in group.paths]
        current = JavaRewrite(self._spark, self._table, int(snapshot.snapshotId()), paths)

        def has_same_deletes(path: str) -> bool:
            applied = {rewrite.deletes[number].identity for number in rewrite.files[path].deletes}
            now = {
                delete.identity
                for delete in map(current.deletes.__getitem__, current.files[path].deletes)
                # A new equality delete still applies to the output, which keeps the older sequence number.
                if delete.kind != "equality" or delete.identity in applied
            }
            return applied == now

        valid = [
            group for group in groups if all(path in current.files and has_same_deletes(path) for path in group.paths)
        ]
        valid_numbers = {group.number for group in valid}
        return valid, [group for group in groups if group.number not in valid_numbers]

    def _summary(self, groups: Sequence[RewriteGroup], results: Results) -> dict[str, str]:
        written = [result.written for group in groups for result in results[group.number] if result.written]
        done, total = len(self.outcome.native) + len(groups), len(self._plan.groups)
        part = {} if done == total else {"icepack.part": f"{done} of {total} groups"}
        return {
            **self._context.stamp.properties(__version__),
            "icepack.engine": "native",
            "icepack.rows-dropped": str(sum(item.rows_dropped for item in written)),
            "icepack.groups-compared": f"{sum(group.number in self._checks.compared for group in groups)}",
            **part,
        }

    def _delete_written(self, results: Iterable[TaskResult]) -> None:
        written = (result.written for result in results if result.written)
        delete_outputs(self._table, (file.path for item in written for file in item.files))

    def _progress_reporter(self) -> TaskProgressCallback:
        """Returns a callback that adds the groups of earlier batches to the progress of the running tasks."""
        committed = list(self.outcome.native.values())
        files, size = sum(len(group.files) for group in committed), sum(group.bytes for group in committed)
        total = sum(group.files for group in self._plan.groups)

        def report(done: TaskProgress) -> None:
            progress = Progress(
                done=files + done.files,
                total=total,
                groups_done=len(committed) + done.groups,
                groups=len(self._plan.groups),
                files=files + done.files,
                bytes_read=size + done.bytes,
                working_on=tuple(self._plan.groups[number].partition.path for number in done.working_on),
            )
            if self._context.cancel.is_set():
                return
            try:
                self._context.progress(progress)
            except Exception:
                # A failure to report progress must not stop the compaction.
                log.warning("could not report progress", exc_info=True)

        return report
