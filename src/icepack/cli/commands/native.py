"""The native commands: list tables whose native rewrite is disabled, disable and enable it."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from icepack.cli.audit import current_actor, record_audit_event
from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import format_option, open_app
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId, select_tables
from icepack.domain.verification import NativeDisabled
from icepack.errors import TableNotFound
from icepack.wiring import App


@click.group()
def native() -> None:
    """List, disable and enable the native rewrite by table."""


@native.command("list")
@format_option
@click.pass_context
def list_disabled(ctx: click.Context, output: str) -> None:
    """List the tables whose native rewrite is disabled, and why."""
    with open_app(ctx, require_lake=False) as app:
        found = app.stores.verification.all_native_disabled()
    if output == "json":
        print_json({"native_disabled": [to_json(entry) for entry in found]})
        return
    if not found:
        print_text("The native rewrite is enabled for every table.")
        return
    table = create_table("table", "disabled since (UTC)", "reason", "job")
    for entry in found:
        add_row(table, entry.table, f"{entry.disabled_at:%Y-%m-%d %H:%M}", entry.reason, entry.job_id or "")
    console().print(table)


@native.command()
@click.argument("pattern", metavar="TABLE")
@format_option
@click.pass_context
def enable(ctx: click.Context, pattern: str, output: str) -> None:
    """Enable the native rewrite of a table again."""
    with open_app(ctx, require_lake=False) as app:
        table = _disabled_table(app, pattern)
        was_disabled = app.stores.verification.enable_native(table)
        if was_disabled:
            record_audit_event(app, "native.enable", str(table), "enabled")
    if output == "json":
        print_json({"table": str(table), "enabled": was_disabled})
    elif was_disabled:
        print_text(f"The native rewrite of {table} is enabled again.")
    else:
        print_text(f"The native rewrite of {table} was not disabled.")


@native.command()
@click.argument("pattern", metavar="TABLE")
@click.option("--reason", required=True, help="Reason, which is shown with the table.")
@format_option
@click.pass_context
def disable(ctx: click.Context, pattern: str, reason: str, output: str) -> None:
    """Disable the native rewrite of a table; Spark's procedure compacts it instead."""
    with open_app(ctx) as app:
        table = app.service.table(pattern)
        known = app.stores.verification.native_disabled(table)
        entry = known or _create_entry(app, table, reason)
        if known is None:
            app.stores.verification.disable_native(entry)
            record_audit_event(app, "native.disable", str(table), f"disabled by {current_actor()}: {reason}")
    if output == "json":
        print_json({"native_disabled": to_json(entry), "changed": known is None})
    elif known is None:
        print_text(f"The native rewrite of {table} is disabled.")
    else:
        print_text(f"The native rewrite of {table} is already disabled: {entry.reason}")


def native_disabled_by_table(app: App) -> dict[TableId, NativeDisabled]:
    return {entry.table: entry for entry in app.stores.verification.all_native_disabled()}


def _disabled_table(app: App, pattern: str) -> TableId:
    """Looks among the disabled tables first: a table that was dropped from its catalog may still be listed."""
    disabled = [entry.table for entry in app.stores.verification.all_native_disabled()]
    try:
        return select_tables([pattern], disabled)[0]
    except TableNotFound:
        return app.service.table(pattern)


def _create_entry(app: App, table: TableId, reason: str) -> NativeDisabled:
    table_uuid = str(app.catalogs.load(table).metadata.table_uuid)
    return NativeDisabled(table=table, table_uuid=table_uuid, disabled_at=datetime.now(UTC), reason=reason)
