"""Manages the PySpark session, and runs actions in it with progress reports and cancellation."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from icepack.domain.ports.engine import RunContext
from icepack.engine.java.errors import first_line
from icepack.engine.progress import SparkJobProgress
from icepack.engine.spark_conf import launch_conf
from icepack.errors import Cancelled, EnvironmentFault, redact
from icepack.tracing import bind_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

T = TypeVar("T")
# How often a running action is checked for its end and for a cancel request.
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings that a session is started with."""

    master: str
    conf: Mapping[str, str]
    java_home: Path
    log_file: Path = Path(os.devnull)
    app_name: str = "icepack"


class SparkSessions:
    """Starts the session on first use and keeps it for the lifetime of the process."""

    def __init__(self, settings: Callable[[], SessionSettings]) -> None:
        self._settings = settings
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    @property
    def is_started(self) -> bool:
        return self._session is not None

    @property
    def spark(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = _start(self._settings())
            return self._session

    @property
    def is_usable(self) -> bool:
        """False after the session's JVM has died, because a process cannot start a second one."""
        return self._session is None or _is_alive(self._session)

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None and _is_alive(session):
            session.stop()

    def run_monitored(self, work: Callable[[], T], context: RunContext) -> T:
        """Runs `work` in a separate thread, reports its progress, and cancels its Spark jobs on request.

        It always waits for the work to end, because only then is it known whether something was committed.
        """
        results: list[T] = []
        errors: list[BaseException] = []
        tag = f"icepack-{uuid4()}"
        progress = SparkJobProgress(self._session, tag)
        worker = threading.Thread(
            target=bind_context(lambda: _capture(lambda: self._run_tagged(work, tag), results, errors)),
            name="icepack-action",
            daemon=True,
        )
        worker.start()
        while worker.is_alive():
            worker.join(POLL_SECONDS)
            self._monitor(context, tag, progress)
        if results:
            return results[0]
        if context.cancel.is_set():
            raise Cancelled("Stopped before anything was committed.") from errors[0]
        raise errors[0]

    def _run_tagged(self, work: Callable[[], T], tag: str) -> T:
        """Marks the Spark jobs with a tag, which threads inherit; Iceberg's actions set their own job groups."""
        context = self.spark.sparkContext
        context.addJobTag(tag)
        try:
            return work()
        finally:
            context.removeJobTag(tag)

    def _monitor(self, context: RunContext, tag: str, progress: SparkJobProgress) -> None:
        session = self._session
        if session is None:
            return
        try:
            if context.cancel.is_set():
                session.sparkContext.cancelJobsWithTag(tag)
                return
            changed = None if context.reports_progress.is_set() else progress.poll(session)
            if changed is not None:
                context.progress(changed)
        except Exception:
            # A failure here must not end the wait for the action.
            log.warning("could not report progress of the running action or cancel it", exc_info=True)


def _is_alive(session: SparkSession) -> bool:
    process = getattr(session.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def _capture(work: Callable[[], T], results: list[T], errors: list[BaseException]) -> None:
    try:
        results.append(work())
    except BaseException as exc:
        errors.append(exc)


def _start(settings: SessionSettings) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(settings.java_home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Otherwise PySpark would start the Spark in that folder instead of its own.
    os.environ.pop("SPARK_HOME", None)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        _launch_jvm(settings)
        builder = SparkSession.builder.appName(settings.app_name).master(settings.master)
        for key, value in settings.conf.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as exc:
        raise EnvironmentFault(
            f"Spark did not start on {settings.master}: {redact(first_line(str(exc)))}",
            f"Spark's log is {settings.log_file}; `icepack doctor` checks what is missing.",
        ) from exc
    session.sparkContext.setLogLevel("ERROR")
    return session


def _launch_jvm(settings: SessionSettings) -> None:
    """Starts the JVM with its output in the log file, and without secrets on its command line."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    launch = SparkConf(loadDefaults=False).setAll(list(launch_conf(settings.conf).items()))
    settings.log_file.parent.mkdir(parents=True, exist_ok=True)
    with settings.log_file.open("ab") as log:
        gateway = launch_gateway(launch, popen_kwargs={"stdout": log, "stderr": log})
    SparkContext._ensure_initialized(gateway=gateway)
