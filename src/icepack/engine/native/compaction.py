"""A compaction on the native path: what it covers is rewritten by the kernel, the rest by Spark's procedure."""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from icepack import __version__
from icepack.domain.actions import Compact
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.ports.engine import Progress, RunContext
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, NativeFailure, ValueProof
from icepack.engine.native.coverage import TableFacts, group_obstacle, table_obstacle
from icepack.engine.native.job import (
    Done,
    Told,
    kernel_obstacle,
    may_have_failed,
    possible_outputs,
    run_tasks,
)
from icepack.engine.native.jvm import JavaRewrite, LiveFile
from icepack.engine.native.kernel_version import kernel_version
from icepack.engine.native.ordering import order_of
from icepack.engine.native.sizing import executors
from icepack.engine.native.tasks import Group, group_tasks
from icepack.engine.native.value_checks import ValueChecks
from icepack.errors import CommitConflict, CommitStateUnknown, RowsChanged
from icepack.kernel.executor import Answer, Assignment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

DELETE_SHARE = 0.25
DEFAULT_COMMITS = 10
MISMATCH = "values differed after the native rewrite"
MOST_TOLD = 100
"""Groups that a run record tells apart; a table may have many thousands."""


@dataclass(slots=True)
class Outcome:
    """What became of each group."""

    native: dict[int, Group] = field(default_factory=dict)
    elsewhere: dict[int, str] = field(default_factory=dict)
    """Groups that were left to Spark, and why."""
    invalidated: set[int] = field(default_factory=set)
    """Groups that another writer changed before they could be committed."""
    copied_bytes: int = 0
    """Of the native groups' outputs: what was taken over without being decoded."""
    damaged: dict[int, str] = field(default_factory=dict)
    """Groups with a page whose checksum is wrong: nobody rewrites them, because Spark may not notice."""
    failures: list[NativeFailure] = field(default_factory=list)
    """Groups whose native rewrite failed unexpectedly; they are among those left to Spark."""
    mismatch: Mismatch | None = None


class NativeCompaction:
    """One attempt, from one snapshot."""

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
        self._facts = table_facts(spark, table)
        self._order = order_of(spark, table, self._facts, action)
        self._executors = executors(spark)
        self._checks = ValueChecks(spark, table, table_id, self._facts, action, context)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        groups = list(enumerate(self._plan.groups))
        obstacle = (
            self._checks.obstacle
            or table_obstacle(self._facts, self._action)
            or self._order.obstacle
            or self._executors.obstacle
            or kernel_obstacle(self._spark)
        )
        if obstacle is not None:
            self.outcome.elsewhere = {number: obstacle for number, _ in groups}
            return self.outcome
        self._context.told.set()
        paths = [path for _, group in groups for path in group.paths]
        rewrite = JavaRewrite(self._spark, self._table, int(self._plan.snapshot_id or 0), paths)
        for batch in self._batches(self._covered(rewrite)):
            self._context.check()
            if self.outcome.mismatch is not None:
                self.outcome.elsewhere |= {group.number: MISMATCH for group in batch}
            else:
                self._rewrite(rewrite, batch)
        return self.outcome

    def proof(self) -> ValueProof:
        """What was proven of the groups that were committed, and by whom the others were rewritten."""
        return ValueProof(
            level=self._action.proof,
            groups=len(self.outcome.native),
            groups_compared=len(self._checks.compared & self.outcome.native.keys()),
            rows_compared=self._checks.rows_compared,
            spark_groups=len(self.outcome.elsewhere),
            reasons={str(reason): count for reason, count in self._checks.reasons.items()},
            new_classes=tuple(self._checks.new_classes),
            failures=tuple(self.outcome.failures[:MOST_TOLD]),
            mismatch=self.outcome.mismatch,
            kernel_version=kernel_version(),
        )

    def _covered(self, rewrite: JavaRewrite) -> list[Group]:
        found = []
        room = int(self._executors.task_bytes * DELETE_SHARE)
        for number, planned in enumerate(self._plan.groups):
            files = in_order(rewrite.files[path] for path in planned.paths if path in rewrite.files)
            deletes = {index: rewrite.deletes[index] for file in files for index in file.deletes}
            group = Group(number=number, partition=planned.partition, files=files, deletes=deletes)
            obstacle = (
                "files that the snapshot does not have"
                if len(files) < len(planned.paths)
                else group_obstacle(self._facts, files, deletes.values(), room)
                or self._order.too_large(group, self._executors.task_bytes)
            )
            if obstacle is None:
                found.append(group)
            else:
                self.outcome.elsewhere[number] = obstacle
        return found

    def _batches(self, groups: list[Group]) -> list[list[Group]]:
        """All at once, or in about as many parts as there may be commits."""
        if not groups:
            return []
        options = self._action.options
        in_parts = self._action.partial_progress or options.get("partial-progress.enabled", "").lower() == "true"
        if not in_parts:
            return [groups]
        size = -(-len(groups) // int(options.get("partial-progress.max-commits", DEFAULT_COMMITS)))
        return [groups[start : start + size] for start in range(0, len(groups), size)]

    def _rewrite(self, rewrite: JavaRewrite, groups: Sequence[Group]) -> None:
        stamp = self._context.stamp
        name = f"icepack-{stamp.job_id}-{stamp.attempt}-{stamp.batch}"
        tasks = [
            task
            for group in groups
            for task in group_tasks(
                group,
                rewrite,
                self._facts,
                target_bytes=self._plan.target_file_bytes,
                name=name,
                order=self._order.json,
                memory_bytes=self._executors.task_bytes,
            )
        ]
        threads = self._executors.threads(len(tasks))
        tasks = [replace(item, task=replace(item.task, threads=threads)) for item in tasks]
        made = _by_group(self._answers(tasks, groups))
        try:
            self._settle(rewrite, groups, made)
        except CommitStateUnknown:
            # The outputs may be in the table: whoever deletes them may delete rows.
            raise
        except BaseException:
            self._discard(
                answer for group in groups if group.number not in self.outcome.native for answer in made[group.number]
            )
            raise

    def _answers(self, tasks: Sequence[Assignment], groups: Sequence[Group]) -> list[Answer]:
        """Of the attempts that count; what the others have written is removed."""
        tell = self._teller()
        try:
            answers = run_tasks(self._spark, tasks, self._facts.file_io_properties, tell)
        except BaseException:
            delete_files(self._table, possible_outputs(self._spark, tasks))
            raise
        if may_have_failed(self._spark, answers):
            kept = {file.path for answer in answers if answer.written for file in answer.written.files}
            delete_files(self._table, (path for path in possible_outputs(self._spark, tasks) if path not in kept))
        if not any(answer.gone for answer in answers):
            tell(Done(sum(len(group.files) for group in groups), sum(group.bytes for group in groups), len(groups)))
        return answers

    def _settle(self, rewrite: JavaRewrite, groups: Sequence[Group], made: Mapping[int, list[Answer]]) -> None:
        ready = []
        gone = next((answer.gone for group in groups for answer in made[group.number] if answer.gone), "")
        if gone:
            raise CommitConflict(f"A file that was planned is gone: {gone}")
        for group in groups:
            if self._is_written(group, made[group.number]):
                check_rows(group, made[group.number])
                ready.append(group)
        ready = self._with_same_values(rewrite, ready, made) if ready else []
        if ready:
            self._commit(rewrite, ready, made)

    def _is_written(self, group: Group, answers: Sequence[Answer]) -> bool:
        """False where a task has written nothing that may be committed; then the whole group is given up."""
        damaged = next((answer.damaged for answer in answers if answer.damaged), "")
        refused = next((answer.uncovered for answer in answers if answer.uncovered), "")
        failed = next((answer.failed for answer in answers if answer.failed), "")
        if not (damaged or refused or failed):
            return True
        if damaged:
            self.outcome.damaged[group.number] = damaged
            log.error("%s: %s", self._table.name(), damaged)
        elif refused:
            self.outcome.elsewhere[group.number] = refused
        else:
            self.outcome.elsewhere[group.number] = f"the native rewrite failed: {failed}"
            self.outcome.failures.append(NativeFailure(partition=group.partition.path, error=failed))
            log.warning("native rewrite of a group of %s failed, Spark rewrites it: %s", self._table.name(), failed)
        self._discard(answers)
        return False

    def _with_same_values(
        self, rewrite: JavaRewrite, groups: list[Group], made: Mapping[int, list[Answer]]
    ) -> list[Group]:
        """Those that may be committed. After a mismatch none of the batch may, and Spark does the work."""

        def outputs(of: Sequence[Group]) -> list[dict[str, Any]]:
            return commit_request(of, made, self._order.is_table_order)[1]

        self.outcome.mismatch = self._checks.check(rewrite, groups, made, outputs)
        left = {number: f"values could not be compared: {why}" for number, why in self._checks.uncheckable.items()}
        if self.outcome.mismatch is not None:
            left = {group.number: MISMATCH for group in groups}
        for group in groups:
            if group.number in left:
                self.outcome.elsewhere[group.number] = left[group.number]
                self._discard(made[group.number])
        return [group for group in groups if group.number not in left]

    def _commit(self, rewrite: JavaRewrite, groups: list[Group], made: Mapping[int, list[Answer]]) -> None:
        """What another writer has changed meanwhile is taken out; the rest is worth keeping."""
        while groups:
            self._context.check()
            try:
                rewrite.commit(*commit_request(groups, made, self._order.is_table_order), self._summary(groups, made))
            except CommitConflict:
                groups, lost = self._still_valid(rewrite, groups)
                if not lost:
                    raise
                for group in lost:
                    self.outcome.invalidated.add(group.number)
                    self._discard(made[group.number])
            else:
                self._committed(groups, made)
                return

    def _committed(self, groups: Sequence[Group], made: Mapping[int, list[Answer]]) -> None:
        for group in groups:
            self.outcome.native[group.number] = group
            self.outcome.copied_bytes += sum(item.written.copied_bytes for item in made[group.number] if item.written)

    def _still_valid(self, rewrite: JavaRewrite, groups: Sequence[Group]) -> tuple[list[Group], list[Group]]:
        """Groups whose files are all still there, under the very deletes that were applied."""
        self._table.refresh()
        snapshot = self._table.currentSnapshot()
        paths = [path for group in groups for path in group.paths]
        now = JavaRewrite(self._spark, self._table, int(snapshot.snapshotId()), paths)

        def is_same(path: str) -> bool:
            then = {rewrite.deletes[number].identity for number in rewrite.files[path].deletes}
            newer = {
                delete.identity
                for delete in map(now.deletes.__getitem__, now.files[path].deletes)
                # An equality delete that came meanwhile still applies to the output, which keeps the older number.
                if delete.kind != "equality" or delete.identity in then
            }
            return then == newer

        valid = [group for group in groups if all(path in now.files and is_same(path) for path in group.paths)]
        kept = {group.number for group in valid}
        return valid, [group for group in groups if group.number not in kept]

    def _summary(self, groups: Sequence[Group], made: Mapping[int, list[Answer]]) -> dict[str, str]:
        dropped = sum(
            answer.written.rows_dropped for group in groups for answer in made[group.number] if answer.written
        )
        done = len(self.outcome.native) + len(groups)
        part = {} if done == len(self._plan.groups) else {"icepack.part": f"{done} of {len(self._plan.groups)} groups"}
        return {
            **self._context.stamp.properties(__version__),
            "icepack.engine": "native",
            "icepack.rows-dropped": str(dropped),
            "icepack.groups-compared": f"{sum(group.number in self._checks.compared for group in groups)}",
            **part,
        }

    def _discard(self, answers: Iterable[Answer]) -> None:
        written = (answer.written for answer in answers if answer.written)
        delete_files(self._table, (file.path for item in written for file in item.files))

    def _teller(self) -> Told:
        before = list(self.outcome.native.values())
        files, size = sum(len(group.files) for group in before), sum(group.bytes for group in before)
        total = sum(group.files for group in self._plan.groups)

        def tell(done: Done) -> None:
            progress = Progress(
                done=files + done.files,
                total=total,
                groups_done=len(before) + done.groups,
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
                # Whoever watches may fail; the work goes on all the same.
                log.warning("could not tell the progress", exc_info=True)

        return tell


def delete_files(table: Any, paths: Iterable[str]) -> None:
    """Deletes files of our own that no commit has taken up, or that were never written."""
    from py4j.protocol import Py4JJavaError

    io = table.io()
    for path in paths:
        try:
            io.deleteFile(path)
        except Py4JJavaError:
            log.warning("%s was not committed and could not be deleted; it is an orphan now.", path)


def in_order(files: Iterable[LiveFile]) -> tuple[LiveFile, ...]:
    """As they were written, so that rows that came together stay together."""
    return tuple(sorted(files, key=lambda file: (file.sequence_number, file.first_row_id or 0, file.path)))


def _by_group(answers: Iterable[Answer]) -> dict[int, list[Answer]]:
    found: dict[int, list[Answer]] = {}
    for answer in answers:
        found.setdefault(answer.group, []).append(answer)
    return found


def check_rows(group: Group, answers: Sequence[Answer]) -> None:
    """Before the commit: every row that was read is written or was deleted, and every row was read."""
    written = [answer.written for answer in answers if answer.written]
    seen = sum(item.rows_in for item in written)
    kept, dropped = sum(item.rows_out for item in written), sum(item.rows_dropped for item in written)
    if seen != group.records or seen != kept + dropped:
        raise RowsChanged(
            f"A rewrite of {len(group.files)} files with {group.records:,} rows read {seen:,}, wrote {kept:,} and "
            f"dropped {dropped:,} deleted ones. Nothing was committed; the table is as it was."
        )


def commit_request(
    groups: Sequence[Group], made: Mapping[int, list[Answer]], is_sorted: bool
) -> tuple[list[str], list[dict[str, Any]]]:
    removed = [path for group in groups for path in group.paths]
    added = [
        {
            "path": file.path,
            "like": group.files[0].path,
            "bytes": file.bytes,
            "nan_counts": {str(number): count for number, count in file.nan_counts.items()},
            "bounds": {str(number): [_text(raw) for raw in pair] for number, pair in file.bounds.items()},
            "split_offsets": list(file.split_offsets),
            "sorted": is_sorted,
        }
        for group in groups
        for answer in made[group.number]
        if answer.written
        for file in answer.written.files
    ]
    return removed, added


def _text(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


def table_facts(spark: SparkSession, table: Any) -> TableFacts:
    io = table.io()
    jvm = spark.sparkContext._jvm
    parser = jvm.org.apache.iceberg.SchemaParser
    return TableFacts(
        schema=json.loads(parser.toJson(table.schema())),
        spec_id=int(table.spec().specId()),
        format_version=int(table.operations().current().formatVersion()),
        properties=_plain(jvm, table.properties()),
        location=str(table.location()),
        file_io=str(io.getClass().getName()),
        file_io_properties=_io_properties(jvm, io),
    )


def _plain(jvm: Any, mapping: Any) -> dict[str, str]:
    """A map of Java's, fetched at once; else each of its entries would take several calls."""
    mapper = jvm.com.fasterxml.jackson.databind.ObjectMapper()
    found: dict[str, str] = json.loads(mapper.writeValueAsString(mapping))
    return found


def _io_properties(jvm: Any, io: Any) -> dict[str, str]:
    """With the credentials that a catalog has lent for this table, where it has."""
    from py4j.protocol import Py4JError

    properties = _plain(jvm, io.properties())
    try:
        lent = io.credentials()
    except Py4JError:
        # Most kinds of storage have no such method.
        return properties
    for credential in lent:
        properties |= _plain(jvm, credential.config())
    return properties


def report(outcome: Outcome, plan: CompactionPlan) -> dict[str, Any]:
    """Which way each group went, and why; for the run's record."""
    ways = [
        {"partition": group.partition.path, "files": group.files, **_way(outcome, number)}
        for number, group in enumerate(plan.groups)
    ]
    return {
        "native_groups": len(outcome.native),
        "spark_groups": len(outcome.elsewhere),
        "copied_bytes": outcome.copied_bytes,
        "groups": ways[:MOST_TOLD],
        **({"failures": list(outcome.damaged.values())[:MOST_TOLD]} if outcome.damaged else {}),
    }


def _way(outcome: Outcome, number: int) -> dict[str, str]:
    if number in outcome.native:
        return {"engine": "native"}
    if number in outcome.damaged:
        return {"engine": "none", "why": outcome.damaged[number]}
    if number in outcome.elsewhere:
        return {"engine": "spark", "why": outcome.elsewhere[number]}
    return {"engine": "none", "why": "another writer changed its files; planned again"}
