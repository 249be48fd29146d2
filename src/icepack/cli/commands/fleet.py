"""The commands that maintain all tables: scheduler, orchestrator, health sync."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import click

from icepack.cli.commands.read import TABLES_ARGUMENT
from icepack.cli.context import format_option, open_app
from icepack.cli.exit_codes import FAILED, INTERRUPTED, SUCCEEDED
from icepack.cli.output.fleet import show_orchestrator_pass, show_sync_report
from icepack.cli.output.schedule import log_scheduler_pass, show_schedule
from icepack.cli.output.service_log import log_status
from icepack.cli.signals import stop_on_signal
from icepack.domain.ports.table_cache import RefreshInProgress
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.errors import IcepackError, UsageError
from icepack.service.loop import repeat
from icepack.service.worker.reaper import run_reaper
from icepack.wiring import App

SCHEDULER_INTERVAL = timedelta(seconds=15)
PROPERTY_READER_THREADS = 8


@click.command()
@click.option("--once", is_flag=True, help="Submit the jobs that are due and exit, for a cron job.")
@click.pass_context
def scheduler(ctx: click.Context, once: bool) -> int:
    """Submit jobs by schedule until stopped; several schedulers may run at the same time."""
    with open_app(ctx) as app:
        _require_scheduler(app)
        if once:
            log_scheduler_pass(app.scheduler.run_once())
            return SUCCEEDED
        with run_reaper(app.reaper):
            return _run_until_stopped(lambda stop: log_scheduler_pass(app.scheduler.run_once(stop)), SCHEDULER_INTERVAL)


@click.command()
@TABLES_ARGUMENT
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 366), help="How many days to look ahead.")
@format_option
@click.pass_context
def schedule(ctx: click.Context, patterns: tuple[str, ...], days: int, output: str) -> int:
    """Show upcoming scheduled runs."""
    with open_app(ctx) as app:
        _require_scheduler(app)
        tables = app.service.tables(patterns) if patterns else app.managed_tables.tables()
        windows, errors = _read_windows(app, tables)
        now = app.scheduler.now()
        until = now + timedelta(days=days)
        runs = app.scheduler.upcoming(tables, windows.__getitem__, now, until).runs
        show_schedule(runs, errors, (now, until), app.scheduler.zone, output)
        return FAILED if errors else SUCCEEDED


@click.command()
@click.option("--once/--loop", default=True, help="Decide once and exit, or repeatedly until stopped.")
@click.option("--shadow", is_flag=True, help="Submit nothing; only record in the audit log what would be submitted.")
@click.option("--explain", is_flag=True, help="Also show the tables that were not chosen, and why.")
@format_option
@click.pass_context
def orchestrate(ctx: click.Context, once: bool, shadow: bool, explain: bool, output: str) -> int:
    """Submit recommended actions of all tables as jobs, those with the most benefit per dollar first."""
    if output == "json" and not once:
        raise UsageError("--format json cannot be used with --loop.", "Use --once.")
    with open_app(ctx) as app:
        settings = app.loaded.config.orchestrator

        def decide(stop: Event | None = None) -> None:
            found = app.orchestrator.run_once(shadow=shadow or settings.shadow, stop=stop)
            show_orchestrator_pass(found, output, explain=explain)

        if once:
            decide()
            return SUCCEEDED
        return _run_until_stopped(decide, settings.interval)


@click.command("health-sync")
@click.option("--once", is_flag=True, help="Refresh the table cache once and exit.")
@click.option("--full", is_flag=True, help="Inspect all tables the first time, even those that have not changed.")
@format_option
@click.pass_context
def health_sync(ctx: click.Context, once: bool, full: bool, output: str) -> int:
    """Keep the table cache up to date: find tables, inspect those that changed, assess them, recommend actions."""
    if output == "json" and not once:
        raise UsageError("--format json needs --once.")
    with open_app(ctx) as app:
        if once:
            return sync_once(app, full=full, output=output)
        is_full = [full]

        def refresh(stop: Event) -> None:
            sync_once(app, full=is_full[0], output=output, stop=stop)
            is_full[0] = False

        return _run_until_stopped(refresh, app.loaded.config.health_sync.interval)


def sync_once(app: App, *, full: bool = False, output: str = "table", stop: Event | None = None) -> int:
    """Runs one cycle; returns 0 if the cache is current or being refreshed, 1 if a catalog did not respond."""
    try:
        report = app.health_sync.run_once(full=full, stop=stop)
    except RefreshInProgress as exc:
        log_status(str(exc))
        return SUCCEEDED
    show_sync_report(report, output)
    return FAILED if report.silent_catalogs else SUCCEEDED


def _require_scheduler(app: App) -> None:
    if not app.loaded.config.scheduler.enabled:
        raise UsageError("The scheduler is disabled.", "Set scheduler.enabled to true.")


def _run_until_stopped(step: Callable[[Event], object], interval: timedelta) -> int:
    logging.getLogger("icepack").setLevel(logging.WARNING)
    stop = Event()
    with stop_on_signal(stop.set) as received:
        log_status(f"Started; runs every {format_duration(interval)} until stopped.")
        repeat(lambda: step(stop), every=interval, stop=stop, report=log_status)
    return INTERRUPTED if signal.SIGINT in received else SUCCEEDED


def _read_windows(
    app: App, tables: list[TableId]
) -> tuple[dict[TableId, tuple[Window, ...]], list[tuple[TableId, str]]]:
    """Returns the maintenance windows of each table; for a table that cannot be read, those of the configuration."""
    errors: list[tuple[TableId, str]] = []

    def read(table: TableId) -> tuple[Window, ...]:
        try:
            return app.policies.policy_for(table, app.inspector.properties(table)).windows
        except IcepackError as exc:
            errors.append((table, str(exc)))
            return app.policies.policy_for(table, {}).windows

    with ThreadPoolExecutor(PROPERTY_READER_THREADS) as pool:
        return dict(zip(tables, pool.map(read, tables), strict=True)), sorted(errors)
