"""The PySpark session: started when first needed, in a thread that can be watched and cancelled."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from icepack.domain.ports.engine import RunContext
from icepack.engine.java.errors import first_line
from icepack.engine.progress import Watch
from icepack.engine.spark_conf import launch_conf
from icepack.errors import Cancelled, EnvironmentFault, redact
from icepack.tracing import in_context

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

T = TypeVar("T")
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """All that a session needs to start; made by the wiring."""

    master: str
    conf: Mapping[str, str]
    java_home: Path
    log_file: Path = Path(os.devnull)
    app_name: str = "icepack"


class SparkSessions:
    """One session for the life of the process."""

    def __init__(self, settings: Callable[[], SessionSettings]) -> None:
        self._settings = settings
        self._session: SparkSession | None = None
        self._lock = threading.Lock()

    @property
    def started(self) -> bool:
        return self._session is not None

    @property
    def spark(self) -> SparkSession:
        with self._lock:
            if self._session is None:
                self._session = _start(self._settings())
            return self._session

    @property
    def usable(self) -> bool:
        """False once the session's JVM has died: one process cannot start a second."""
        return self._session is None or _is_alive(self._session)

    def execute(self, sql: str) -> Sequence[Mapping[str, Any]]:
        return [row.asDict() for row in self.spark.sql(sql).collect()]

    def close(self) -> None:
        with self._lock:
            session, self._session = self._session, None
        if session is not None and _is_alive(session):
            session.stop()

    def watch(self, work: Callable[[], T], context: RunContext) -> T:
        """Runs `work` in a thread of its own, telling progress, and cancels its Spark jobs, and no others, if asked to.

        It always waits for the end of the work: only then is it known whether something was committed.
        """
        outcome: list[T] = []
        failure: list[BaseException] = []
        tag = f"icepack-{uuid4()}"
        watch = Watch(self._session, tag)
        worker = threading.Thread(
            target=in_context(lambda: _capture(lambda: self._tagged(work, tag), outcome, failure)),
            name="icepack-action",
            daemon=True,
        )
        worker.start()
        while worker.is_alive():
            worker.join(POLL_SECONDS)
            self._attend(context, tag, watch)
        if outcome:
            return outcome[0]
        if context.cancel.is_set():
            raise Cancelled("Stopped before anything was committed.") from failure[0]
        raise failure[0]

    def _tagged(self, work: Callable[[], T], tag: str) -> T:
        """Iceberg's actions set job groups of their own; a tag passes on to all threads that they start."""
        context = self.spark.sparkContext
        context.addJobTag(tag)
        try:
            return work()
        finally:
            context.removeJobTag(tag)

    def _attend(self, context: RunContext, tag: str, watch: Watch) -> None:
        session = self._session
        if session is None:
            return
        try:
            if context.cancel.is_set():
                session.sparkContext.cancelJobsWithTag(tag)
                return
            news = None if context.told.is_set() else watch.news(session)
            if news is not None:
                context.progress(news)
        except Exception:
            # Whoever watches may fail; the work must be waited for all the same.
            log.warning("could not attend to the running action", exc_info=True)


def _is_alive(session: SparkSession) -> bool:
    process = getattr(session.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def _capture(work: Callable[[], T], outcome: list[T], failure: list[BaseException]) -> None:
    try:
        outcome.append(work())
    except BaseException as exc:
        failure.append(exc)


def _start(settings: SessionSettings) -> SparkSession:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(settings.java_home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # PySpark would start whatever Spark lies there instead of the one it came with.
    os.environ.pop("SPARK_HOME", None)
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if settings.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        _launch(settings)
        builder = SparkSession.builder.appName(settings.app_name).master(settings.master)
        for key, value in settings.conf.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as exc:
        raise EnvironmentFault(
            f"Spark did not start on {settings.master}: {redact(first_line(str(exc)))}",
            f"Its own words are in {settings.log_file}; `icepack doctor` tells what is missing.",
        ) from exc
    session.sparkContext.setLogLevel("ERROR")
    return session


def _launch(settings: SessionSettings) -> None:
    """Starts the JVM with its chatter in the log file, and with no secret on its command line."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    launch = SparkConf(loadDefaults=False).setAll(list(launch_conf(settings.conf).items()))
    settings.log_file.parent.mkdir(parents=True, exist_ok=True)
    with settings.log_file.open("ab") as log:
        gateway = launch_gateway(launch, popen_kwargs={"stdout": log, "stderr": log})
    SparkContext._ensure_initialized(gateway=gateway)
