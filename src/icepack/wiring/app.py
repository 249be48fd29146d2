"""Builds the services from the adapters."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from icepack.catalog.commits import SnapshotCommitReader
from icepack.clock import utc_now
from icepack.config import (
    CompactionConfig,
    LoadedConfig,
    build_base_policy,
    build_policy_rules,
    build_timetable,
    list_named_tables,
    parse_policy_overrides,
    parse_schedule_overrides,
    scheduler_timezone,
)
from icepack.service.advice import PolicyResolver
from icepack.service.fleet.budgets import Budgets
from icepack.service.fleet.candidates import CandidateBuilder, OrchestratorOptions
from icepack.service.fleet.health_sync_trigger import HealthSyncTrigger
from icepack.service.fleet.managed_tables import ManagedTables
from icepack.service.fleet.schedule_log import ScheduleLog
from icepack.service.fleet.spending import DailySpending
from icepack.service.health_sync import SyncOptions, TableCacheSyncWorker
from icepack.service.live_overrides import POLICIES, SCHEDULES, LivePolicyRules, VersionedValue
from icepack.service.maintenance import MaintenanceRunner
from icepack.service.orchestrator import Orchestrator
from icepack.service.retry import RetryPolicy
from icepack.service.runs.history_store import BufferedHistoryStore
from icepack.service.runs.locked_runner import LockedRunner, build_cli_owner
from icepack.service.runs.request import RunDependencies
from icepack.service.runs.table_locations import TableLocator
from icepack.service.runs.verification_store import BufferedVerificationStore
from icepack.service.runs.verifier import Verifier
from icepack.service.scheduler import Scheduler
from icepack.service.service import CompactionService
from icepack.service.submission import JobSubmitter
from icepack.service.views.overview import FleetStatistics
from icepack.service.views.table_index import TableIndex
from icepack.service.worker.job_execution import JobRunner
from icepack.service.worker.options import WorkerOptions
from icepack.service.worker.worker import Worker
from icepack.wiring.adapters import Adapters, ignore_announcement


@dataclass(frozen=True)
class App(Adapters):
    """All services of one configuration, each built when it is first used."""

    @cached_property
    def history(self) -> BufferedHistoryStore:
        return BufferedHistoryStore(self.stores.history)

    @cached_property
    def verification(self) -> BufferedVerificationStore:
        return BufferedVerificationStore(self.stores.verification)

    @cached_property
    def run_dependencies(self) -> RunDependencies:
        retry = self.loaded.config.retry
        return RunDependencies(
            inspector=self.inspector,
            commit_reader=SnapshotCommitReader(self.catalogs, self.manifest_reader),
            engine=self.engine,
            history=self.history,
            locations=TableLocator(self.discovery.locations, lambda: self.stores.cache).locations,
            retry=RetryPolicy(max_attempts=retry.max_attempts, base_delay=retry.base_delay),
            cost_model=self.cost_model,
            verification=self.verification,
        )

    @cached_property
    def runner(self) -> MaintenanceRunner:
        """Takes no lock: a worker's claim already holds the table."""
        return MaintenanceRunner(self.run_dependencies)

    @cached_property
    def locked_runner(self) -> LockedRunner:
        """Takes the table's lock, for runs that are started by a command."""
        lease = self.loaded.config.worker.lease
        return LockedRunner(self.runner, lambda: self.locks, owner=build_cli_owner(), lease=lease, tracer=self.tracer)

    @cached_property
    def verifier(self) -> Verifier:
        return Verifier(
            engine=self.engine,
            commit_reader=self.run_dependencies.commit_reader,
            history=self.history,
            verification=self.verification,
        )

    @cached_property
    def policies(self) -> PolicyResolver:
        """Resolves policies from the configuration and from the overrides that were set through the API."""
        rules = LivePolicyRules(
            build_policy_rules(self.loaded.config),
            lambda: parse_policy_overrides(self.stores.overrides.read(POLICIES).entries),
        )
        return PolicyResolver(base=build_base_policy(self.loaded.config), rules=rules)

    @cached_property
    def service(self) -> CompactionService:
        return CompactionService(
            discovery=self.discovery,
            inspector=self.inspector,
            history=self.history,
            runner=self.locked_runner,
            policies=self.policies,
            model=self.cost_model,
        )

    @cached_property
    def job_runner(self) -> JobRunner:
        return JobRunner(
            jobs=self.jobs,
            runner=self.runner,
            history=self.history,
            options=build_worker_options(self.loaded.config),
            tracer=self.tracer,
        )

    @cached_property
    def worker(self) -> Worker:
        return Worker(
            self.job_runner,
            reaper=self.reaper,
            registry=self.stores.worker_registry,
            is_healthy=lambda: self.sessions.is_usable,
        )

    @cached_property
    def managed_tables(self) -> ManagedTables:
        return ManagedTables(
            self.discovery, lambda: list(self.stores.cache.locations()), named=list_named_tables(self.loaded.config)
        )

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler; rebuilt after policies or schedules were changed through the API."""
        return self._schedulers.current()

    @cached_property
    def _schedulers(self) -> VersionedValue[Scheduler]:
        overrides = self.stores.overrides
        return VersionedValue(
            lambda: (overrides.read(POLICIES).version, overrides.read(SCHEDULES).version), self._build_scheduler
        )

    def _build_scheduler(self) -> Scheduler:
        overrides = parse_schedule_overrides(self.stores.overrides.read(SCHEDULES).entries)
        return Scheduler(
            timetable=build_timetable(self.loaded.config, overrides),
            advisor=self.service,
            tables=self.managed_tables.tables,
            windows=lambda table: self.policies.policy_for(table, {}).windows,
            jobs=self.jobs,
            schedule_log=ScheduleLog(self.audit),
            clock=self.jobs.now,
        )

    @cached_property
    def orchestrator(self) -> Orchestrator:
        options = build_orchestrator_options(self.loaded.config)
        return Orchestrator(
            advisor=self.service,
            tables=self.managed_tables.tables,
            jobs=self.jobs,
            cache=self.stores.cache,
            audit=self.audit,
            spending=self.daily_spending,
            candidates=CandidateBuilder(self.policies, self.cost_model, options),
            options=options,
            clock=self.jobs.now,
        )

    @cached_property
    def table_index(self) -> TableIndex:
        return TableIndex(self.stores.cache)

    @cached_property
    def job_submitter(self) -> JobSubmitter:
        return JobSubmitter(
            cache=self.stores.cache,
            jobs=self.jobs,
            fleet_queries=self.stores.fleet_queries,
            policies=self.policies,
            model=self.cost_model,
            max_attempts=self.loaded.config.worker.max_attempts,
            clock=utc_now,
        )

    @cached_property
    def daily_spending(self) -> DailySpending:
        zone = scheduler_timezone(self.loaded.config)
        return DailySpending(self.stores.history, self.policies, self.cost_model, zone)

    @cached_property
    def budgets(self) -> Budgets:
        return Budgets(
            spending=self.daily_spending,
            policies=self.policies,
            table_index=self.table_index,
            jobs=self.jobs,
            cache=self.stores.cache,
            clock=utc_now,
        )

    @cached_property
    def fleet_statistics(self) -> FleetStatistics:
        queries = self.stores.fleet_queries
        return FleetStatistics(self.table_index, queries, self.verification, self.cost_model, utc_now)

    @cached_property
    def health_sync(self) -> TableCacheSyncWorker:
        sync = self.loaded.config.health_sync
        return TableCacheSyncWorker(
            catalogs=self.discovery,
            advisor=self.service,
            cache=self.stores.cache,
            status_history=self.stores.history,
            history=self.stores.history,
            owner=f"health-sync:{socket.gethostname()}:{os.getpid()}",
            clock=utc_now,
            named=list_named_tables(self.loaded.config),
            options=SyncOptions(refresh_after=sync.refresh_after, threads=sync.parallelism),
        )

    @cached_property
    def health_sync_trigger(self) -> HealthSyncTrigger:
        interval = self.loaded.config.health_sync.interval
        return HealthSyncTrigger(
            self.health_sync, self.stores.fleet_queries, self.stores.cache.state, interval=interval, clock=utc_now
        )

    def close(self) -> None:
        """Closes what has been built, and only that."""
        for name in ("sessions", "history", "verification", "stores", "span_export"):
            part = self.__dict__.get(name)
            if part is not None:
                part.close()


def build_worker_options(config: CompactionConfig) -> WorkerOptions:
    worker = config.worker
    return WorkerOptions(lease=worker.lease, poll=worker.poll, retry_delay=worker.retry_delay)


def build_orchestrator_options(config: CompactionConfig) -> OrchestratorOptions:
    settings = config.orchestrator
    return OrchestratorOptions(
        concurrency=settings.concurrency,
        retry_after=settings.retry_after,
        dollars_per_point=settings.dollars_per_point,
        zone=scheduler_timezone(config),
    )


def build_app(
    loaded: LoadedConfig, *, environ: Mapping[str, str], announce: Callable[[str], None] = ignore_announcement
) -> App:
    return App(loaded, environ, announce)
