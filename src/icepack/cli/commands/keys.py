"""The commands around API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from icepack.cli.commands.jobs import audit, who
from icepack.cli.console import console, grid, print_json, row, say
from icepack.cli.context import format_option, stateful
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption


@click.group()
def keys() -> None:
    """Keys for the API: make, list, revoke."""


@keys.command()
@click.argument("name")
@click.option("--role", type=click.Choice(list(map(str, Role))), default="viewer", show_default=True, help="What for.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="CATALOG.NAMESPACE",
    help="Only these tables, by globs: 'lake.sales*'; else all.",
)
@click.option("--expires", metavar="DURATION", help="How long it is valid: 90d; else until it is revoked.")
@format_option
@click.pass_context
def create(ctx: click.Context, name: str, role: str, scopes: tuple[str, ...], expires: str | None, output: str) -> None:
    """Make a key. It is shown this once; only a digest of it is kept."""
    from icepack.api.auth.api_keys import new_key

    made, now = new_key(), datetime.now(UTC)
    key = ApiKey(
        id=made.id,
        name=name,
        role=Role(role),
        scopes=tuple(Scope.parse(text) for text in scopes) or (Scope(),),
        created_at=now,
        created_by=who(),
        expires_at=_end(expires, now) if expires else None,
    )
    with stateful(ctx) as app:
        app.stores.keys.add(key, made.digest)
        audit(app, "keys.create", name, f"{role} on {', '.join(map(str, key.scopes))}")
    if output == "json":
        print_json({"key": made.text, **_json(key, now)})
        return
    click.echo(made.text)
    click.echo("Keep it safe: it is not shown again.", err=True)


@keys.command("list")
@format_option
@click.pass_context
def list_keys(ctx: click.Context, output: str) -> None:
    """List the keys, never what they are."""
    with stateful(ctx) as app:
        found, now = app.stores.keys.list_keys(), datetime.now(UTC)
    if output == "json":
        print_json({"keys": [_json(key, now) for key in found]})
        return
    if not found:
        say("There are no keys.")
        return
    table = grid("name", "id", "role", "tables", "made", "expires", "")
    for key in found:
        row(
            table,
            key.name,
            key.id,
            key.role,
            ", ".join(map(str, key.scopes)),
            f"{key.created_at:%Y-%m-%d}",
            f"{key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "never",
            key.state(now),
        )
    console().print(table)


@keys.command()
@click.argument("name")
@format_option
@click.pass_context
def revoke(ctx: click.Context, name: str, output: str) -> None:
    """Revoke a key, by its name or id; services heed it within seconds."""
    now = datetime.now(UTC)
    with stateful(ctx) as app:
        key = app.stores.keys.revoke(name, now)
        audit(app, "keys.revoke", key.name, "revoked")
    if output == "json":
        print_json(_json(key, now))
    else:
        say(f"Key '{key.name}' is revoked, and its sessions have ended.")


def _end(text: str, now: datetime) -> datetime:
    try:
        return now + parse_duration(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidOption(f"--expires: {exc}.") from exc


def _json(key: ApiKey, now: datetime) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role.value,
        "scopes": [str(scope) for scope in key.scopes],
        "created_at": key.created_at.isoformat(),
        "created_by": key.created_by,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
        "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
        "state": key.state(now),
    }
