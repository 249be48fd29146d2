"""Repeats the value check of a group whose native rewrite changed values, without committing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from icepack.domain.plan.files import PartitionKey
from icepack.domain.verification import Mismatch, ValueComparison
from icepack.engine.native.executors import get_executor_resources
from icepack.engine.native.java_rewrite import JavaRewrite
from icepack.engine.native.job import list_possible_outputs, run_tasks
from icepack.engine.native.outputs import build_commit_request, delete_outputs
from icepack.engine.native.table_facts import read_table_facts
from icepack.engine.native.tasks import RewriteGroup, build_tasks
from icepack.engine.verification.rewrite_check import RewriteCheck
from icepack.errors import EngineFault, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Larger than any group, so that the group is written to one output.
ONE_OUTPUT_BYTES = 2**62


def repeat_check(spark: SparkSession, table: Any, mismatch: Mismatch) -> ValueComparison:
    """Rewrites the files of the group natively again, as they were in that snapshot, and compares the values."""
    group, rewrite = _load_group(spark, table, mismatch)
    facts, resources = read_table_facts(spark, table), get_executor_resources(spark)
    tasks = build_tasks(
        group,
        rewrite,
        facts,
        target_bytes=ONE_OUTPUT_BYTES,
        name=f"icepack-verify-{uuid4()}",
        sort_order=None,
        memory_bytes=resources.task_bytes,
    )
    threads = resources.threads_per_task(len(tasks))
    tasks = [replace(item, task=replace(item.task, threads=threads)) for item in tasks]
    try:
        results = run_tasks(spark, tasks, facts.file_io_properties, lambda _: None)
        problems = [result.unsupported or result.error or result.corrupt_page for result in results]
        if any(problems):
            raise EngineFault(f"This version of the kernel cannot rewrite these files: {next(filter(None, problems))}.")
        _, added = build_commit_request([group], {group.number: results}, is_sorted=False)
        comparison = RewriteCheck(spark, table, facts, rewrite).compare(group.paths, added)
    finally:
        delete_outputs(table, list_possible_outputs(spark, tasks))
    return ValueComparison(
        snapshot_id=mismatch.snapshot_id,
        against_id=None,
        rows_before=comparison.rows_before,
        rows_after=comparison.rows_after,
        files_before=len(group.files),
        files_after=len(added),
        files_shared=0,
        differences=comparison.differences,
    )


def _load_group(spark: SparkSession, table: Any, mismatch: Mismatch) -> tuple[RewriteGroup, JavaRewrite]:
    if table.snapshot(mismatch.snapshot_id) is None:
        raise UsageError(
            f"Snapshot {mismatch.snapshot_id}, in which the values differed, has expired.",
            "Enable the native rewrite again with 'icepack native enable': the next run compares values anyway.",
        )
    rewrite = JavaRewrite(spark, table, mismatch.snapshot_id, mismatch.files)
    files = tuple(rewrite.files[path] for path in mismatch.files if path in rewrite.files)
    deletes = {number: rewrite.deletes[number] for file in files for number in file.deletes}
    group = RewriteGroup(number=0, partition=PartitionKey(0, mismatch.partition), files=files, deletes=deletes)
    return group, rewrite
