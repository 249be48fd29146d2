"""Runs kernel tasks on Spark's executors with any master, and returns their results to the driver, which commits."""

from __future__ import annotations

import atexit
import logging
import shutil
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from icepack.engine.native.kernel_version import kernel_modules
from icepack.kernel.executor import (
    CountsAccumulatorParam,
    TaskAssignment,
    TaskResult,
    build_task_runner,
    probe_versions,
)
from icepack.kernel.task import ATTEMPT_PLACEHOLDER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Progress is polled after pauses that double from the first to the second value: each poll costs the driver and the JVM
# 25 ms of CPU time.
FIRST_POLL_SECONDS = 0.25
MAX_POLL_SECONDS = 2.0
# How long a cancelled job is waited for, because its tasks may still write.
STRAGGLER_SECONDS = 5.0
STRAGGLER_POLL_SECONDS = 0.05
# The prefix of a probe result that names a missing or unsuitable library.
MISSING_PREFIX = "missing: "
# The maximum number of running tasks that a poll requests.
MAX_RUNNING = 100


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """The progress of the tasks."""

    files: int
    bytes: int
    # How many groups have completed all their tasks.
    groups: int
    # The numbers of the groups that have a running task.
    working_on: tuple[int, ...] = ()


TaskProgressCallback = Callable[[TaskProgress], None]

_probe_results: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def kernel_fallback_reason(spark: SparkSession) -> str | None:
    """Why the executors cannot run the kernel; tested once per session, and not at all with a local master."""
    context = spark.sparkContext
    if str(context.master).startswith("local["):
        return None
    if context not in _probe_results:
        _send_kernel(context)
        _probe_results[context] = _probe(context)
    return _probe_results[context] or None


def _probe(context: Any) -> str:
    slots = max(context.defaultParallelism, 2)
    results = context.parallelize(range(slots), slots).mapPartitions(probe_versions).collect()
    missing = next((text.removeprefix(MISSING_PREFIX) for text in results if text.startswith(MISSING_PREFIX)), "")
    if missing:
        log.warning("executors cannot run the icepack kernel (%s), falling back to Spark's procedure", missing)
    return f"executors without the kernel's library: {missing}" if missing else ""


def _send_kernel(context: Any) -> None:
    """Makes the kernel available to the executors, so that icepack need not be installed there.

    Executors fetch the archive from the driver when they need it, so it is deleted only when the driver process ends.
    """
    folder = Path(mkdtemp(prefix="icepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / "icepack_kernel.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("icepack/__init__.py", "")
        for path, module in kernel_modules():
            packed.writestr(path, module.read_text("utf-8"))
    context.addPyFile(str(archive))


def run_tasks(
    spark: SparkSession, tasks: Sequence[TaskAssignment], storage: Mapping[str, str], report: TaskProgressCallback
) -> list[TaskResult]:
    """Runs the largest tasks first, so that none of them starts last and delays the end of the job."""
    context = spark.sparkContext
    assignments = sorted(tasks, key=lambda item: -sum(file.bytes for file in item.task.inputs))
    # A broadcast appears neither in the event log nor in error messages, unlike a captured variable or a setting.
    storage_properties = context.broadcast(dict(storage))
    files, size = context.accumulator(0), context.accumulator(0)
    groups = context.accumulator({}, CountsAccumulatorParam())
    tasks_per_group = Counter(item.group for item in assignments)

    def report_progress(tag: str) -> None:
        finished = [number for number, count in dict(groups.value).items() if count >= tasks_per_group[number]]
        running = [index for index in _running_tasks(context, tag) if index < len(assignments)]
        working_on = sorted({assignments[index].group for index in running})
        report(TaskProgress(files.value, size.value, len(finished), tuple(working_on)))

    try:
        with _wait_for_stragglers(context) as tag, _report_periodically(lambda: report_progress(tag)):
            run = build_task_runner(storage_properties, files, size, groups)
            return list(context.parallelize(assignments, len(assignments)).mapPartitions(run).collect())
    finally:
        storage_properties.unpersist()


def list_possible_outputs(spark: SparkSession, tasks: Sequence[TaskAssignment]) -> Iterator[str]:
    """The outputs of every attempt that Spark may have made; most of them do not exist."""
    attempts = int(_get_setting(spark, "spark.task.maxFailures", "4")) * (2 if _is_speculative(spark) else 1)
    for item in tasks:
        for output in item.task.outputs:
            yield from (output.replace(ATTEMPT_PLACEHOLDER, str(attempt)) for attempt in range(attempts))


def may_have_failed_attempts(spark: SparkSession, results: Sequence[TaskResult]) -> bool:
    """Whether there may be other attempts than those that returned results; a killed one leaves its outputs behind."""
    return _is_speculative(spark) or any(result.attempt for result in results)


def _is_speculative(spark: SparkSession) -> bool:
    return _get_setting(spark, "spark.speculation", "false").lower() == "true"


def _get_setting(spark: SparkSession, name: str, default: str) -> str:
    """Reads from the session, because the context would fetch all settings one by one to return one of them."""
    return str(spark.conf.get(name, default))


@contextmanager
def _wait_for_stragglers(context: Any) -> Iterator[str]:
    """Waits for the tasks of a cancelled job, which still write until Spark kills their workers."""
    tag = f"icepack-tasks-{uuid4()}"
    context.addJobTag(tag)
    try:
        yield tag
    except BaseException:
        deadline = time.monotonic() + STRAGGLER_SECONDS
        while _count_active_tasks(context, tag) and time.monotonic() < deadline:
            time.sleep(STRAGGLER_POLL_SECONDS)
        raise
    finally:
        context.removeJobTag(tag)


def _count_active_tasks(context: Any, tag: str) -> int:
    return sum(stage.numActiveTasks for stage in _get_stages(context, tag))


def _get_stages(context: Any, tag: str) -> list[Any]:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    stages = [tracker.getStageInfo(stage_id) for job in jobs if job is not None for stage_id in job.stageIds]
    return [stage for stage in stages if stage is not None]


def _running_tasks(context: Any, tag: str) -> list[int]:
    """The indexes of the running tasks; only these are requested, because a job may have many thousands."""
    from py4j.protocol import Py4JError

    try:
        jvm, store = context._jvm, context._jsc.sc().statusStore()
        status = jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING
        statuses = jvm.java.util.Collections.singletonList(status)
        order = jvm.org.apache.spark.status.api.v1.TaskSorting.ID
        return [
            int(found.apply(position).index())
            for stage in _get_stages(context, tag)
            if stage.numActiveTasks
            for found in [store.taskList(stage.stageId, stage.currentAttemptId, 0, MAX_RUNNING, order, statuses)]
            for position in range(found.size())
        ]
    except (Py4JError, AttributeError, TypeError) as exc:
        # The running tasks are only informative, and other Spark versions may report them differently.
        log.debug("could not read the running tasks from Spark: %s", exc)
        return []


@contextmanager
def _report_periodically(report: Callable[[], None]) -> Iterator[None]:
    """Calls `report` in a background thread, and once more at the end."""
    stop = threading.Event()

    def poll() -> None:
        pause = FIRST_POLL_SECONDS
        while not stop.wait(pause):
            report()
            pause = min(2 * pause, MAX_POLL_SECONDS)

    thread = threading.Thread(target=poll, name="icepack-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    report()
