"""The db commands: upgrade and prune the state database."""

from __future__ import annotations

from datetime import timedelta

import click

from icepack.cli.audit import record_audit_event
from icepack.cli.console import print_json, print_text
from icepack.cli.context import format_option, open_app
from icepack.domain.ports.history import RetentionPeriods
from icepack.domain.serialization import to_json
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption


@click.group()
def db() -> None:
    """Upgrade or prune the state database."""


@db.command()
@click.pass_context
def upgrade(ctx: click.Context) -> None:
    """Upgrade the schema to this release; every command that uses the database also does this."""
    with open_app(ctx, require_lake=False) as app:
        app.stores.jobs.now()
    print_text("The state database is up to date.")


@db.command()
@click.option("--runs", help="Retention of runs; the last success of each action is always kept.")
@click.option("--jobs", help="Retention of finished jobs and their events.")
@click.option("--statuses", help="Retention of table statuses.")
@click.option("--assessments", help="Retention of health reports.")
@click.option("--audit", "audit_entries", help="Retention of audit entries.")
@click.option("--classes", help="Retention of file classes since they were last compared by value.")
@format_option
@click.pass_context
def prune(ctx: click.Context, /, output: str, audit_entries: str | None, **ages: str | None) -> None:
    """Delete records that are older than their retention: 90d, or `never` to keep all of them."""
    given = {name: _parse_age(text) for name, text in {**ages, "audit": audit_entries}.items() if text is not None}
    with open_app(ctx, require_lake=False) as app:
        pruned = app.retention.prune(RetentionPeriods(**given))
        record_audit_event(app, "db.prune", "", str(to_json(pruned)))
    if output == "json":
        print_json({"pruned": to_json(pruned)})
        return
    for name, count in to_json(pruned).items():
        print_text(f"{name}: {count:,} deleted")


def _parse_age(text: str) -> timedelta | None:
    if text == "never":
        return None
    try:
        return parse_duration(text)
    except ValueError as exc:
        raise InvalidOption(f"{exc}.", "Or write `never` to keep all records.") from exc
