"""The commands of the processes that keep a fleet going: scheduler, orchestrator, health sync."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event

import click

from icepack.cli.commands.read import SOME_TABLES
from icepack.cli.commands.worker import INTERRUPTED, told_to_stop
from icepack.cli.context import application, format_option
from icepack.cli.output import fleet as render
from icepack.domain.ports.queue import RefreshUnderWay
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.errors import IcepackError, UsageError
from icepack.service.loop import repeat
from icepack.service.worker.reaper import reaping
from icepack.wiring import App

POLL = timedelta(seconds=15)
LOADERS = 8


@click.command()
@click.option("--once", is_flag=True, help="Look at the clock once and exit, for a cron job.")
@click.pass_context
def scheduler(ctx: click.Context, once: bool) -> int:
    """Submit jobs by their schedules until told to stop; any number of schedulers may run."""
    with application(ctx) as app:
        _refuse_when_off(app)
        if once:
            render.tell_schedule(app.scheduler.run_once())
            return 0
        with reaping(app.reaper):
            return _keep_on(lambda stop: render.tell_schedule(app.scheduler.run_once(stop)), POLL)


@click.command()
@SOME_TABLES
@click.option("--days", default=7, show_default=True, type=click.IntRange(1, 366), help="How far to look ahead.")
@format_option
@click.pass_context
def schedule(ctx: click.Context, patterns: tuple[str, ...], days: int, output: str) -> int:
    """Say what runs next, and when."""
    with application(ctx) as app:
        _refuse_when_off(app)
        tables = app.service.tables(patterns) if patterns else app.census.tables()
        windows, failed = _own_windows(app, tables)
        now = app.scheduler.now()
        until = now + timedelta(days=days)
        found = app.scheduler.upcoming(tables, windows.__getitem__, now, until).runs
        render.show_schedule(found, failed, (now, until), app.scheduler.zone, output)
        return 1 if failed else 0


@click.command()
@click.option("--once/--loop", default=True, help="Decide once and exit, or again and again until told to stop.")
@click.option("--shadow", is_flag=True, help="Submit nothing; only note in the audit log what would be submitted.")
@click.option("--explain", is_flag=True, help="Also show the tables that were not chosen, and why.")
@format_option
@click.pass_context
def orchestrate(ctx: click.Context, once: bool, shadow: bool, explain: bool, output: str) -> int:
    """Turn recommendations into jobs, fleet-wide, the most rewarding first."""
    if output == "json" and not once:
        raise UsageError("--format json is for one round.", "Leave out --loop.")
    with application(ctx) as app:
        settings = app.loaded.config.orchestrator

        def decide(stop: Event | None = None) -> None:
            found = app.orchestrator.run_once(shadow=shadow or settings.shadow, stop=stop)
            render.show_fleet(found, output, explain=explain)

        if once:
            decide()
            return 0
        return _keep_on(decide, settings.interval)


@click.command("health-sync")
@click.option("--once", is_flag=True, help="Refresh the table cache once and exit.")
@click.option("--full", is_flag=True, help="Look at every table the first time, changed or not.")
@format_option
@click.pass_context
def health_sync(ctx: click.Context, once: bool, full: bool, output: str) -> int:
    """Keep the table cache up to date: find tables, look at those that changed, assess, recommend."""
    if output == "json" and not once:
        raise UsageError("--format json is for one refresh.", "Add --once.")
    with application(ctx) as app:
        if once:
            return sync_once(app, full=full, output=output)
        every = [full]

        def refresh(stop: Event) -> None:
            _sync(app, full=every[0], output=output, stop=stop)
            every[0] = False

        return _keep_on(refresh, app.loaded.config.health_sync.interval)


def sync_once(app: App, *, full: bool = False, output: str = "table") -> int:
    """One cycle: 0 when the cache is current, or another refreshes it; 1 when a catalog did not answer."""
    return _sync(app, full=full, output=output)


def _sync(app: App, *, full: bool, output: str, stop: Event | None = None) -> int:
    try:
        report = app.health_sync.run_once(full=full, stop=stop)
    except RefreshUnderWay as exc:
        render.tell(str(exc))
        return 0
    render.show_sync(report, output)
    return 1 if report.silent else 0


def _refuse_when_off(app: App) -> None:
    if not app.loaded.config.scheduler.enabled:
        raise UsageError("The scheduler is switched off.", "Set scheduler.enabled to true.")


def _keep_on(step: Callable[[Event], object], every: timedelta) -> int:
    logging.getLogger("icepack").setLevel(logging.WARNING)
    stop = Event()
    with told_to_stop(stop.set) as received:
        render.tell(f"Started; at work every {format_duration(every)} until told to stop.")
        repeat(lambda: step(stop), every=every, stop=stop, tell=render.tell)
    return INTERRUPTED if signal.SIGINT in received else 0


def _own_windows(
    app: App, tables: list[TableId]
) -> tuple[dict[TableId, tuple[Window, ...]], list[tuple[TableId, str]]]:
    """Each table's windows, its own properties included; of one that cannot be read, the configuration's."""
    failed: list[tuple[TableId, str]] = []

    def look(table: TableId) -> tuple[Window, ...]:
        try:
            return app.policies.policy_for(table, app.inspector.properties(table)).windows
        except IcepackError as exc:
            failed.append((table, str(exc)))
            return app.policies.policy_for(table, {}).windows

    with ThreadPoolExecutor(LOADERS) as pool:
        return dict(zip(tables, pool.map(look, tables), strict=True)), sorted(failed)
