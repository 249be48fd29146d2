"""The locks command: shows or breaks table locks."""

from __future__ import annotations

import click

from icepack.cli.audit import current_actor, record_audit_event
from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import format_option, open_app
from icepack.domain.ports.locks import TableLock
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId, select_tables


@click.command()
@click.option("--force", "pattern", metavar="TABLE", help="Break the lock of this table; its owner stops.")
@format_option
@click.pass_context
def locks(ctx: click.Context, pattern: str | None, output: str) -> None:
    """Show which tables are locked and by whom, or break a lock."""
    with open_app(ctx, require_lake=False) as app:
        if pattern is None:
            _show_locks(app.locks.list_locks(), output)
            return
        table = _find_locked_table(pattern, app.locks.list_locks())
        broken = app.locks.break_lock(table, force=True, by=current_actor())
        record_audit_event(app, "locks.break", str(table), "broken" if broken else "not locked")
    if output == "json":
        print_json({"broken": to_json(broken) if broken else None})
    elif broken:
        print_text(f"Broke the lock of '{broken.owner}' on {table}; the owner stops at its next heartbeat.")
    else:
        print_text(f"{table} is not locked.")


def _find_locked_table(pattern: str, locks: list[TableLock]) -> TableId:
    """Looks among the locked tables only: a table that was dropped from its catalog may still be locked."""
    return select_tables([pattern], [lock.table for lock in locks])[0]


def _show_locks(locks: list[TableLock], output: str) -> None:
    if output == "json":
        print_json({"locks": [to_json(lock) for lock in locks]})
        return
    if not locks:
        print_text("No table is locked.")
        return
    table = create_table("table", "owner", "job or purpose", "locked since (UTC)", "expires (UTC)")
    for lock in locks:
        expires = f"{lock.expires_at:%Y-%m-%d %H:%M:%S}" + (" (expired)" if lock.expired else "")
        since = f"{lock.taken_at:%Y-%m-%d %H:%M:%S}"
        add_row(table, lock.table, lock.owner, lock.job_id or lock.purpose, since, expires)
    console().print(table)
