"""The commands around the native rewrite: where it is off, and switching it off and on by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from icepack.cli.commands.jobs import audit, who
from icepack.cli.console import console, grid, print_json, row, say
from icepack.cli.context import application, format_option, stateful
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId, select_tables
from icepack.domain.verification import NativeDisabled
from icepack.errors import TableNotFound
from icepack.wiring import App


@click.group()
def native() -> None:
    """The native rewrite: list the tables where it is off, switch it off or on."""


@native.command("list")
@format_option
@click.pass_context
def list_disabled(ctx: click.Context, output: str) -> None:
    """List the tables where the native rewrite is off, with the reason."""
    with stateful(ctx) as app:
        found = app.stores.verification.all_native_disabled()
    if output == "json":
        print_json({"native_disabled": [to_json(entry) for entry in found]})
        return
    if not found:
        say("The native rewrite is on for every table.")
        return
    table = grid("table", "off since (UTC)", "reason", "job")
    for entry in found:
        row(table, entry.table, f"{entry.disabled_at:%Y-%m-%d %H:%M}", entry.reason, entry.job_id or "")
    console().print(table)


@native.command()
@click.argument("pattern", metavar="TABLE")
@format_option
@click.pass_context
def enable(ctx: click.Context, pattern: str, output: str) -> None:
    """Switch the native rewrite on again for a table."""
    with stateful(ctx) as app:
        table = _disabled_table(app, pattern)
        was_off = app.stores.verification.enable_native(table)
        if was_off:
            audit(app, "native.enable", str(table), "enabled")
    if output == "json":
        print_json({"table": str(table), "enabled": was_off})
    elif was_off:
        say(f"The native rewrite is on again for {table}.")
    else:
        say(f"The native rewrite was not off for {table}.")


@native.command()
@click.argument("pattern", metavar="TABLE")
@click.option("--reason", required=True, help="Why; shown wherever the table is.")
@format_option
@click.pass_context
def disable(ctx: click.Context, pattern: str, reason: str, output: str) -> None:
    """Switch the native rewrite off for a table: Spark's procedure compacts it from then on."""
    with application(ctx) as app:
        table = app.service.table(pattern)
        known = app.stores.verification.native_disabled(table)
        entry = known or _by_hand(app, table, reason)
        if known is None:
            app.stores.verification.disable_native(entry)
            audit(app, "native.disable", str(table), f"disabled by {who()}: {reason}")
    if output == "json":
        print_json({"native_disabled": to_json(entry), "changed": known is None})
    elif known is None:
        say(f"The native rewrite is off for {table}.")
    else:
        say(f"The native rewrite was off already for {table}: {entry.reason}")


def disabled_tables(app: App) -> dict[TableId, NativeDisabled]:
    return {entry.table: entry for entry in app.stores.verification.all_native_disabled()}


def _disabled_table(app: App, pattern: str) -> TableId:
    """First among those that are off: a table that is gone from its catalog may still be listed."""
    off = [entry.table for entry in app.stores.verification.all_native_disabled()]
    try:
        return select_tables([pattern], off)[0]
    except TableNotFound:
        return app.service.table(pattern)


def _by_hand(app: App, table: TableId, reason: str) -> NativeDisabled:
    table_uuid = str(app.catalogs.load(table).metadata.table_uuid)
    return NativeDisabled(table=table, table_uuid=table_uuid, disabled_at=datetime.now(UTC), reason=reason)
