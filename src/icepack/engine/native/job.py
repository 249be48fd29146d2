"""Tasks on Spark's executors, whatever the master; answers come back to the driver, which alone commits."""

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
from icepack.kernel.executor import Answer, Assignment, Tally, runner, versions
from icepack.kernel.task import ATTEMPT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS = 0.25
LOOK_SECONDS = 2.0
"""How often a job is looked at, after ever longer pauses: a look costs the driver and the JVM 25 ms of CPU."""
STRAGGLER_SECONDS = 5.0
STRAGGLER_POLL_SECONDS = 0.05
MISSING = "missing: "
MOST_RUNNING = 100


@dataclass(frozen=True, slots=True)
class Done:
    """How far the tasks are."""

    files: int
    bytes: int
    groups: int
    """Groups whose tasks are all done."""
    working_on: tuple[int, ...] = ()
    """Groups that have a task under way."""


Told = Callable[[Done], None]

_probed: WeakKeyDictionary[Any, str] = WeakKeyDictionary()


def kernel_obstacle(spark: SparkSession) -> str | None:
    """Why the executors cannot run the kernel; asked once for each session, and never of the driver's own machine."""
    context = spark.sparkContext
    if str(context.master).startswith("local["):
        return None
    if context not in _probed:
        _ship(context)
        _probed[context] = _probe(context)
    return _probed[context] or None


def _probe(context: Any) -> str:
    slots = max(context.defaultParallelism, 2)
    said = context.parallelize(range(slots), slots).mapPartitions(versions).collect()
    bad = next((text.removeprefix(MISSING) for text in said if text.startswith(MISSING)), "")
    if bad:
        log.warning("Spark's executors cannot run icepack's kernel (%s): compaction goes to Spark's procedure.", bad)
    return f"executors without the kernel's library: {bad}" if bad else ""


def _ship(context: Any) -> None:
    """Executors need not have icepack installed: its kernel goes with the job.

    They fetch it from the driver when they need it, so it lies there until the driver ends.
    """
    folder = Path(mkdtemp(prefix="icepack-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    archive = folder / "icepack_kernel.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("icepack/__init__.py", "")
        for path, module in kernel_modules():
            packed.writestr(path, module.read_text("utf-8"))
    context.addPyFile(str(archive))


def run_tasks(spark: SparkSession, tasks: Sequence[Assignment], storage: Mapping[str, str], told: Told) -> list[Answer]:
    """The largest first: whoever begins last should not be whoever takes longest."""
    context = spark.sparkContext
    payload = sorted(tasks, key=lambda item: -sum(file.bytes for file in item.task.inputs))
    # Broadcast, not captured or configured: neither the event log nor an error message shows it.
    secrets = context.broadcast(dict(storage))
    done, size, groups = context.accumulator(0), context.accumulator(0), context.accumulator({}, Tally())
    wanted = Counter(item.group for item in payload)

    def tell(tag: str) -> None:
        finished = [number for number, count in dict(groups.value).items() if count >= wanted[number]]
        under_way = sorted({payload[index].group for index in _running(context, tag) if index < len(payload)})
        told(Done(done.value, size.value, len(finished), tuple(under_way)))

    try:
        with _to_the_end(context) as tag, _telling(lambda: tell(tag)):
            run = runner(secrets, done, size, groups)
            return list(context.parallelize(payload, len(payload)).mapPartitions(run).collect())
    finally:
        secrets.unpersist()


def possible_outputs(spark: SparkSession, tasks: Sequence[Assignment]) -> Iterator[str]:
    """Of every attempt that Spark may have made; most of them were not."""
    attempts = int(_setting(spark, "spark.task.maxFailures", "4")) * (2 if _is_speculative(spark) else 1)
    for item in tasks:
        for output in item.task.outputs:
            yield from (output.replace(ATTEMPT, str(attempt)) for attempt in range(attempts))


def may_have_failed(spark: SparkSession, answers: Sequence[Answer]) -> bool:
    """Whether there were attempts besides those that answered; a killed one could not tidy up behind itself."""
    return _is_speculative(spark) or any(answer.attempt for answer in answers)


def _is_speculative(spark: SparkSession) -> bool:
    return _setting(spark, "spark.speculation", "false").lower() == "true"


def _setting(spark: SparkSession, name: str, otherwise: str) -> str:
    """Of the session and not of its context, which would fetch all settings, one by one, to tell one of them."""
    return str(spark.conf.get(name, otherwise))


@contextmanager
def _to_the_end(context: Any) -> Iterator[str]:
    """A job that was stopped has tasks that still write, until Spark takes their worker away: it is waited for."""
    tag = f"icepack-tasks-{uuid4()}"
    context.addJobTag(tag)
    try:
        yield tag
    except BaseException:
        deadline = time.monotonic() + STRAGGLER_SECONDS
        while _active_tasks(context, tag) and time.monotonic() < deadline:
            time.sleep(STRAGGLER_POLL_SECONDS)
        raise
    finally:
        context.removeJobTag(tag)


def _active_tasks(context: Any, tag: str) -> int:
    return sum(stage.numActiveTasks for stage in _stages(context, tag))


def _stages(context: Any, tag: str) -> list[Any]:
    tracker = context.statusTracker()
    jobs = map(tracker.getJobInfo, context._jsc.sc().statusTracker().getJobIdsForTag(tag))
    stages = [tracker.getStageInfo(number) for job in jobs if job is not None for number in job.stageIds]
    return [stage for stage in stages if stage is not None]


def _running(context: Any, tag: str) -> list[int]:
    """The places in the list of tasks that are worked on now; only these are asked for, however many there are."""
    from py4j.protocol import Py4JError

    try:
        jvm, store = context._jvm, context._jsc.sc().statusStore()
        status = jvm.org.apache.spark.status.api.v1.TaskStatus.RUNNING
        wanted = jvm.java.util.Collections.singletonList(status)
        order = jvm.org.apache.spark.status.api.v1.TaskSorting.ID
        return [
            int(found.apply(position).index())
            for stage in _stages(context, tag)
            if stage.numActiveTasks
            for found in [store.taskList(stage.stageId, stage.currentAttemptId, 0, MOST_RUNNING, order, wanted)]
            for position in range(found.size())
        ]
    except (Py4JError, AttributeError, TypeError) as exc:
        # What is worked on is nice to know; a Spark that tells it otherwise runs all the same.
        log.debug("Spark does not tell which tasks run: %s", exc)
        return []


@contextmanager
def _telling(tell: Callable[[], None]) -> Iterator[None]:
    over = threading.Event()

    def watch() -> None:
        pause = FIRST_LOOK_SECONDS
        while not over.wait(pause):
            tell()
            pause = min(2 * pause, LOOK_SECONDS)

    thread = threading.Thread(target=watch, name="icepack-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    tell()
