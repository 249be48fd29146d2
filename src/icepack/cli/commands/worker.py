"""The commands of a service: the worker, the locks, the database."""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Thread
from types import FrameType

import click

from icepack.cli.commands.jobs import audit, who
from icepack.cli.console import console, grid, print_json, row, say
from icepack.cli.context import application, format_option, stateful
from icepack.domain.ports.queue import KeepFor, TableLock
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId, select_tables
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption
from icepack.service.worker.context import WorkEnd

HANDED_BACK = 75
INTERRUPTED = 130
_CODES = {WorkEnd.FAILED: 1, WorkEnd.RETURNED: HANDED_BACK, WorkEnd.LOST: HANDED_BACK}


@click.command()
@click.option("--loop", is_flag=True, help="Go on with the next job, and reap what dead workers left.")
@click.option("--attached", is_flag=True, help="Stop when standard input ends: with the process that started it.")
@click.pass_context
def worker(ctx: click.Context, loop: bool, attached: bool) -> int:
    """Run one queued job and exit, or with --loop one after the other.

    SIGTERM and Ctrl-C stop it cleanly: the running job is handed back unless it has committed already. A second one
    leaves at once.
    """
    with application(ctx) as app:
        logging.getLogger("icepack").setLevel(logging.INFO)
        if attached:
            _stop_with_input(app.worker.stop)
        with told_to_stop(app.worker.stop) as received:
            end = app.worker.work_on() if loop else app.worker.work_once()
        return exit_code(end, loop=loop, interrupted=signal.SIGINT in received)


def _stop_with_input(stop: Callable[[], None]) -> None:
    """A parent that is killed closes our input by dying; it can tell us no other way."""

    def wait() -> None:
        sys.stdin.buffer.read()
        stop()

    Thread(target=wait, name="icepack-input", daemon=True).start()


def exit_code(end: WorkEnd, *, loop: bool, interrupted: bool) -> int:
    """A loop's failures are the jobs' business; only a job that it had to let go of shows."""
    code = _CODES.get(end, 0)
    if loop and code != HANDED_BACK:
        code = 0
    return INTERRUPTED if interrupted and code == 0 and end is not WorkEnd.SUCCEEDED else code


@contextmanager
def told_to_stop(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Calls `stop` on the first SIGTERM or SIGINT, leaves on the second; which ones came."""
    received: list[int] = []

    def ask(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        if len(received) > 1:
            raise KeyboardInterrupt
        # In a thread of its own: the handler may have interrupted this thread within the very lock that `stop` needs.
        Thread(target=stop, name="icepack-stop").start()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@click.command()
@click.option("--force", "pattern", metavar="TABLE", help="Break this table's lock; its holder is stopped.")
@format_option
@click.pass_context
def locks(ctx: click.Context, pattern: str | None, output: str) -> None:
    """Show who works on which table."""
    with stateful(ctx) as app:
        if pattern is None:
            _show_locks(app.locks.list_locks(), output)
            return
        table = _held_table(pattern, app.locks.list_locks())
        broken = app.locks.break_lock(table, force=True, by=who())
        audit(app, "locks.break", str(table), "broken" if broken else "nobody held it")
    if output == "json":
        print_json({"broken": to_json(broken) if broken else None})
    elif broken:
        say(f"The lock of '{broken.owner}' on {table} is broken; its holder stops at the next heartbeat.")
    else:
        say(f"Nobody holds {table}.")


def _held_table(pattern: str, held: list[TableLock]) -> TableId:
    """Among those that are held: a table that is gone from its catalog may still be locked."""
    return select_tables([pattern], [lock.table for lock in held])[0]


def _show_locks(held: list[TableLock], output: str) -> None:
    if output == "json":
        print_json({"locks": [to_json(lock) for lock in held]})
        return
    if not held:
        say("No table is locked.")
        return
    table = grid("table", "owner", "for", "since", "until")
    for lock in held:
        until = f"{lock.expires_at:%Y-%m-%d %H:%M:%S}" + (" (expired)" if lock.expired else "")
        row(table, lock.table, lock.owner, lock.job_id or lock.purpose, f"{lock.taken_at:%Y-%m-%d %H:%M:%S}", until)
    console().print(table)


@click.group()
def db() -> None:
    """The state database: bring its schema up to date, drop what is old."""


@db.command()
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """Bring the schema to this release's; every start does that too."""
    with stateful(ctx) as app:
        app.stores.jobs.now()
    say("The state database is up to date.")


@db.command()
@click.option("--runs", help="Keep runs of this age; the last success of each action stays in any case.")
@click.option("--jobs", help="Keep finished jobs of this age, with their events.")
@click.option("--statuses", help="Keep figures of tables of this age.")
@click.option("--assessments", help="Keep health reports of this age.")
@click.option("--audit", "audit_entries", help="Keep audit entries of this age.")
@click.option("--classes", help="Keep classes of files that were last compared by value at this age.")
@format_option
@click.pass_context
def prune(ctx: click.Context, /, output: str, audit_entries: str | None, **ages: str | None) -> None:
    """Drop what is older than it needs to be: 90d, or `never` to keep it all."""
    given = {name: _age(text) for name, text in {**ages, "audit": audit_entries}.items() if text is not None}
    with stateful(ctx) as app:
        pruned = app.retention.prune(KeepFor(**given))
        audit(app, "db.prune", "", str(to_json(pruned)))
    if output == "json":
        print_json({"pruned": to_json(pruned)})
        return
    for name, count in to_json(pruned).items():
        say(f"{name}: {count:,} dropped")


def _age(text: str) -> timedelta | None:
    if text == "never":
        return None
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise InvalidOption(f"{exc}.", "Or write `never` to keep it all.") from exc
