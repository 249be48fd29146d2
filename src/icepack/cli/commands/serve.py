"""The commands that serve: the API alone, or everything on one machine."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from threading import Event, Thread

import click

from icepack.cli.commands.fleet import POLL
from icepack.cli.commands.worker import INTERRUPTED, told_to_stop
from icepack.cli.context import application, stateful
from icepack.cli.output import fleet as render
from icepack.config import CompactionConfig
from icepack.domain.ports.queue import RefreshUnderWay
from icepack.service.fleet.health_sync_trigger import LOOK_EVERY, PromptSync
from icepack.service.loop import repeat
from icepack.service.retry import Backoff
from icepack.service.worker.reaper import reaping
from icepack.service.worker.supervisor import Supervisor
from icepack.wiring import App

PARTS = ("scheduler", "orchestrator", "health-sync", "worker")
_HOST = click.option("--host", help="The address to listen on; else server.host.")
_PORT = click.option("--port", type=click.IntRange(1, 65535), help="The port to listen on; else server.port.")


@click.command()
@_HOST
@_PORT
@click.pass_context
def api(ctx: click.Context, host: str | None, port: int | None) -> int:
    """Serve the API alone; scheduler, workers and health sync are processes of their own."""
    _listen_at(ctx, host, port)
    with stateful(ctx) as app:
        return _serve(app, [])


@click.command()
@_HOST
@_PORT
@click.option("--without", "left_out", type=click.Choice(PARTS), multiple=True, help="Leave this part to others.")
@click.pass_context
def up(ctx: click.Context, host: str | None, port: int | None, left_out: tuple[str, ...]) -> int:
    """Serve everything on one machine: API, scheduler, orchestrator, health sync, and a worker.

    The worker is a process of its own, which is started again when it fails. SIGTERM and Ctrl-C end all of it cleanly.
    """
    _listen_at(ctx, host, port)
    with application(ctx) as app:
        command = None if "worker" in left_out else _worker_command(ctx)
        return _serve(app, [part for part in PARTS[:3] if part not in left_out], command)


def _listen_at(ctx: click.Context, host: str | None, port: int | None) -> None:
    """As if they had been set: everything reads one configuration."""
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


def _serve(app: App, parts: list[str], worker_command: list[str] | None = None) -> int:
    from icepack.api.app import build_api
    from icepack.api.server import ApiServer, refuse_openness

    refuse_openness(app.loaded.config)
    logging.getLogger("icepack").setLevel(logging.WARNING)
    supervisor = Supervisor(worker_command) if worker_command else None
    server = ApiServer(build_api(app, worker_state=supervisor.trouble if supervisor else None), app.loaded.config)
    with told_to_stop(server.stop) as received, ExitStack() as stack:
        if supervisor is not None:
            stack.callback(supervisor.stop)
            supervisor.start()
        if parts:
            stack.enter_context(reaping(app.reaper))
            stack.enter_context(_looping(_steps(app, parts), server.stop))
        render.tell(f"Serving on http://{server.address}; {_what(app.loaded.config, parts, worker_command)}.")
        server.serve_until_stopped()
        render.tell("Stopping.")
    return INTERRUPTED if signal.SIGINT in received else 0


def _what(config: CompactionConfig, parts: list[str], worker_command: list[str] | None) -> str:
    guard = "keys are asked for" if config.auth.is_on else "open to this machine"
    return ", ".join([guard, *parts, *(["worker"] if worker_command else [])])


Step = Callable[[Event], object]


@dataclass(frozen=True, slots=True)
class Rhythm:
    """What is done again and again, how often, and how rarely at most after failures."""

    step: Step
    every: timedelta
    rarest: timedelta


def _steps(app: App, parts: list[str]) -> dict[str, Rhythm]:
    config = app.loaded.config
    prompt, sync_every = app.prompt_sync, config.health_sync.interval
    orchestrate_every = config.orchestrator.interval
    every: dict[str, Rhythm] = {
        "scheduler": Rhythm(lambda stop: render.tell_schedule(app.scheduler.run_once(stop)), POLL, POLL),
        "orchestrator": Rhythm(
            lambda stop: app.orchestrator.run_once(shadow=config.orchestrator.shadow, stop=stop),
            orchestrate_every,
            orchestrate_every,
        ),
        "health-sync": Rhythm(lambda stop: _refresh(prompt, stop), min(LOOK_EVERY, sync_every), sync_every),
    }
    if not config.scheduler.enabled:
        every.pop("scheduler")
    return {name: step for name, step in every.items() if name in parts}


def _refresh(prompt: PromptSync, stop: Event) -> None:
    try:
        prompt.look(stop)
    except RefreshUnderWay as exc:
        render.tell(str(exc))


def _tell(name: str, text: str) -> None:
    render.tell(f"{name}: {text}")


@contextmanager
def _looping(steps: Mapping[str, Rhythm], give_up: Callable[[], None]) -> Iterator[None]:
    """Each in a thread of its own, until the block ends; one that cannot go on ends it all, and says why."""
    stop = Event()
    failed: list[BaseException] = []

    def loop(name: str, rhythm: Rhythm) -> None:
        backoff = Backoff(first_seconds=1.0, longest_seconds=max(rhythm.rarest.total_seconds(), 1.0))
        try:
            repeat(lambda: rhythm.step(stop), every=rhythm.every, stop=stop, tell=partial(_tell, name), backoff=backoff)
        except BaseException as exc:
            failed.append(exc)
            give_up()

    threads = [Thread(target=loop, args=(name, rhythm), name=f"icepack-{name}") for name, rhythm in steps.items()]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
