"""The commands that serve the API: `api` alone, or `up` with all other services."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Thread

import click

from icepack.cli.commands.fleet import SCHEDULER_INTERVAL
from icepack.cli.context import open_app
from icepack.cli.exit_codes import INTERRUPTED, SUCCEEDED
from icepack.cli.output.schedule import log_scheduler_pass
from icepack.cli.output.service_log import log_status
from icepack.cli.signals import stop_on_signal
from icepack.config import CompactionConfig
from icepack.domain.ports.table_cache import RefreshInProgress
from icepack.service.fleet.health_sync_trigger import CHECK_INTERVAL, HealthSyncTrigger
from icepack.service.loop import repeat
from icepack.service.retry import Backoff
from icepack.service.worker.reaper import run_reaper
from icepack.service.worker.supervisor import Supervisor
from icepack.wiring import App

COMPONENTS = ("scheduler", "orchestrator", "health-sync", "worker")
_HOST = click.option("--host", help="Address to listen on; default: server.host.")
_PORT = click.option("--port", type=click.IntRange(1, 65535), help="Port to listen on; default: server.port.")


@click.command()
@_HOST
@_PORT
@click.pass_context
def api(ctx: click.Context, host: str | None, port: int | None) -> int:
    """Run the API server; scheduler, workers and health sync run as separate processes."""
    _override_address(ctx, host, port)
    with open_app(ctx, require_lake=False) as app:
        return _serve(app, [])


@click.command()
@_HOST
@_PORT
@click.option("--without", "excluded", type=click.Choice(COMPONENTS), multiple=True, help="Do not run this component.")
@click.pass_context
def up(ctx: click.Context, host: str | None, port: int | None, excluded: tuple[str, ...]) -> int:
    """Run the whole service on one machine: API, scheduler, orchestrator, health sync and a worker.

    The worker is a separate process, which is restarted if it fails. SIGTERM and Ctrl-C stop everything cleanly.
    """
    _override_address(ctx, host, port)
    with open_app(ctx) as app:
        command = None if "worker" in excluded else _worker_command(ctx)
        return _serve(app, [name for name in COMPONENTS[:3] if name not in excluded], command)


def _override_address(ctx: click.Context, host: str | None, port: int | None) -> None:
    """Adds the address to the settings, so that everything reads one configuration."""
    given = {"server.host": host, "server.port": port}
    options = ctx.find_root().obj
    options["settings"] += tuple(f"{key}={value}" for key, value in given.items() if value is not None)


def _worker_command(ctx: click.Context) -> list[str]:
    options = ctx.find_root().obj
    command = [sys.executable, "-m", "icepack.cli.main"]
    if options["config_file"]:
        command += ["--config", str(options["config_file"])]
    for setting in options["settings"]:
        command += ["--set", setting]
    command += ["--log-format", options["log_format"]]
    return [*command, "worker", "--loop", "--attached"]


def _serve(app: App, components: list[str], worker_command: list[str] | None = None) -> int:
    from icepack.api.app import build_api
    from icepack.api.server import ApiServer, require_authentication

    require_authentication(app.loaded.config)
    logging.getLogger("icepack").setLevel(logging.WARNING)
    supervisor = Supervisor(worker_command) if worker_command else None
    worker_state = supervisor.describe_failure if supervisor else None
    server = ApiServer(build_api(app, worker_state=worker_state), app.loaded.config)
    with stop_on_signal(server.stop) as received, ExitStack() as stack:
        if supervisor is not None:
            stack.callback(supervisor.stop)
            supervisor.start()
        if components:
            stack.enter_context(run_reaper(app.reaper))
            stack.enter_context(_run_in_background(_periodic_tasks(app, components), server.stop))
        running = _describe_service(app.loaded.config, components, worker_command)
        log_status(f"Serving on http://{server.address}; {running}.")
        server.serve_until_stopped()
        log_status("Stopping.")
    return INTERRUPTED if signal.SIGINT in received else SUCCEEDED


def _describe_service(config: CompactionConfig, components: list[str], worker_command: list[str] | None) -> str:
    access = "authentication is on" if config.auth.is_on else "no authentication, reachable from this machine only"
    return ", ".join([access, *components, *(["worker"] if worker_command else [])])


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A task that runs at an interval; after failures the delay grows up to `max_delay`."""

    run: Callable[[Event], object]
    interval: timedelta
    max_delay: timedelta


def _periodic_tasks(app: App, components: list[str]) -> dict[str, PeriodicTask]:
    config = app.loaded.config
    trigger, sync_interval = app.health_sync_trigger, config.health_sync.interval
    orchestrator_interval = config.orchestrator.interval
    tasks = {
        "scheduler": PeriodicTask(
            lambda stop: log_scheduler_pass(app.scheduler.run_once(stop)), SCHEDULER_INTERVAL, SCHEDULER_INTERVAL
        ),
        "orchestrator": PeriodicTask(
            lambda stop: app.orchestrator.run_once(shadow=config.orchestrator.shadow, stop=stop),
            orchestrator_interval,
            orchestrator_interval,
        ),
        "health-sync": PeriodicTask(
            lambda stop: _sync_if_due(trigger, stop), min(CHECK_INTERVAL, sync_interval), sync_interval
        ),
    }
    if not config.scheduler.enabled:
        tasks.pop("scheduler")
    return {name: task for name, task in tasks.items() if name in components}


def _sync_if_due(trigger: HealthSyncTrigger, stop: Event) -> None:
    try:
        trigger.run_if_due(stop)
    except RefreshInProgress as exc:
        log_status(str(exc))


@contextmanager
def _run_in_background(tasks: Mapping[str, PeriodicTask], stop_service: Callable[[], None]) -> Iterator[None]:
    """Runs each task in its own thread until the block ends; a task that cannot continue stops the service."""
    stop = Event()
    failures: list[BaseException] = []

    def loop(name: str, task: PeriodicTask) -> None:
        try:
            repeat(
                lambda: task.run(stop),
                every=task.interval,
                stop=stop,
                report=lambda text: log_status(f"{name}: {text}"),
                backoff=Backoff(initial_seconds=1.0, max_seconds=max(task.max_delay.total_seconds(), 1.0)),
            )
        except BaseException as exc:
            failures.append(exc)
            stop_service()

    threads = [Thread(target=loop, args=(name, task), name=f"icepack-{name}") for name, task in tasks.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]
