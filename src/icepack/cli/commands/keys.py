"""The keys commands: create, list and revoke API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from icepack.cli.audit import current_actor, record_audit_event
from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import format_option, open_app, print_notice
from icepack.domain.access import ApiKey, Role, Scope
from icepack.domain.units import parse_duration
from icepack.errors import InvalidOption


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(list(map(str, Role))), default="viewer", show_default=True, help="What the key may do."
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="CATALOG.NAMESPACE",
    help="Restrict the key to these tables; globs such as 'lake.sales*' work. Default: all tables.",
)
@click.option("--expires", metavar="DURATION", help="Validity, such as 90d; default: until it is revoked.")
@format_option
@click.pass_context
def create(ctx: click.Context, name: str, role: str, scopes: tuple[str, ...], expires: str | None, output: str) -> None:
    """Create a key. It is shown only once; only its hash is stored."""
    from icepack.api.auth.api_keys import generate_key

    made, now = generate_key(), datetime.now(UTC)
    key = ApiKey(
        id=made.id,
        name=name,
        role=Role(role),
        scopes=tuple(Scope.parse(text) for text in scopes) or (Scope(),),
        created_at=now,
        created_by=current_actor(),
        expires_at=_expiry(expires, now) if expires else None,
    )
    with open_app(ctx, require_lake=False) as app:
        app.stores.keys.add(key, made.digest)
        record_audit_event(app, "keys.create", name, f"{role} on {', '.join(map(str, key.scopes))}")
    if output == "json":
        print_json({"key": made.text, **_key_json(key, now)})
        return
    click.echo(made.text)
    print_notice("Store it now: it is not shown again.")


@keys.command("list")
@format_option
@click.pass_context
def list_keys(ctx: click.Context, output: str) -> None:
    """List the keys; the keys themselves are never shown."""
    with open_app(ctx, require_lake=False) as app:
        found, now = app.stores.keys.list_keys(), datetime.now(UTC)
    if output == "json":
        print_json({"keys": [_key_json(key, now) for key in found]})
        return
    if not found:
        print_text("There are no keys.")
        return
    table = create_table("name", "id", "role", "tables", "created", "expires", "state")
    for key in found:
        add_row(
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
    """Revoke a key by its name or id; this takes effect within seconds."""
    now = datetime.now(UTC)
    with open_app(ctx, require_lake=False) as app:
        key = app.stores.keys.revoke(name, now)
        record_audit_event(app, "keys.revoke", key.name, "revoked")
    if output == "json":
        print_json(_key_json(key, now))
    else:
        print_text(f"Key '{key.name}' is revoked, and its sessions are closed.")


def _expiry(text: str, now: datetime) -> datetime:
    try:
        return now + parse_duration(text)
    except (ValueError, OverflowError) as exc:
        raise InvalidOption(f"--expires: {exc}.") from exc


def _key_json(key: ApiKey, now: datetime) -> dict[str, Any]:
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
