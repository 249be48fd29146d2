"""Repeats the check of a group whose native rewrite had changed values; commits nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from icepack.domain.plan.files import PartitionKey
from icepack.domain.verification import Mismatch, ValueComparison
from icepack.engine.native.compaction import commit_request, delete_files, table_facts
from icepack.engine.native.job import possible_outputs, run_tasks
from icepack.engine.native.jvm import JavaRewrite
from icepack.engine.native.sizing import executors
from icepack.engine.native.tasks import Group, group_tasks
from icepack.engine.verification.rewrite_check import RewriteCheck
from icepack.errors import EngineFault, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Larger than any group, so that the group becomes one output.
ONE_OUTPUT_BYTES = 2**62


def repeat_check(spark: SparkSession, table: Any, mismatch: Mismatch) -> ValueComparison:
    """Rewrites the group's files natively once more, as they were at that snapshot, and compares."""
    group, rewrite = _group(spark, table, mismatch)
    facts, workers = table_facts(spark, table), executors(spark)
    tasks = group_tasks(
        group,
        rewrite,
        facts,
        target_bytes=ONE_OUTPUT_BYTES,
        name=f"icepack-verify-{uuid4()}",
        order=None,
        memory_bytes=workers.task_bytes,
    )
    tasks = [replace(item, task=replace(item.task, threads=workers.threads(len(tasks)))) for item in tasks]
    try:
        answers = run_tasks(spark, tasks, facts.file_io_properties, lambda _: None)
        problem = next(filter(None, (answer.uncovered or answer.failed or answer.damaged for answer in answers)), "")
        if problem:
            raise EngineFault(f"The kernel of this version does not rewrite these files: {problem}.")
        _, added = commit_request([group], {group.number: answers}, is_sorted=False)
        found = RewriteCheck(spark, table, facts, rewrite).compare(group.paths, added)
    finally:
        delete_files(table, possible_outputs(spark, tasks))
    return ValueComparison(
        snapshot_id=mismatch.snapshot_id,
        against_id=None,
        rows_before=found.rows_before,
        rows_after=found.rows_after,
        files_before=len(group.files),
        files_after=len(added),
        files_shared=0,
        differences=found.differences,
    )


def _group(spark: SparkSession, table: Any, mismatch: Mismatch) -> tuple[Group, JavaRewrite]:
    if table.snapshot(mismatch.snapshot_id) is None:
        raise UsageError(
            f"Snapshot {mismatch.snapshot_id}, in which the values differed, has expired.",
            "Switch the native rewrite on again with 'icepack native enable': the next run compares values anyway.",
        )
    rewrite = JavaRewrite(spark, table, mismatch.snapshot_id, mismatch.files)
    files = tuple(rewrite.files[path] for path in mismatch.files if path in rewrite.files)
    deletes = {number: rewrite.deletes[number] for file in files for number in file.deletes}
    return Group(number=0, partition=PartitionKey(0, mismatch.partition), files=files, deletes=deletes), rewrite
