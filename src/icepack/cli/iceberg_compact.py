"""`iceberg-compact`: one compaction of one table, the name that CronJobs call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from icepack import __version__
from icepack.cli.main import run_command


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iceberg-compact")
@click.option("--catalog-uri", envvar="CATALOG_URI", help="The catalog's address; without it, icepack.yaml says.")
@click.option("--catalog-type", help="rest, sql, hive, glue; told from the address when it can be.")
@click.option("--catalog-name", default="default", show_default=True)
@click.option("--warehouse", envvar="WAREHOUSE", help="The warehouse, for catalogs that do not know it.")
@click.option("--table", "pattern", required=True, help="namespace.table, or a bare name if it is unique.")
@click.option("--strategy", default="small_files", show_default=True, help="small_files, delete_files or time_series.")
@click.option("--target-file-size", help="512MB, 1GB …")
@click.option("--partition-filter", help='"date >= current_date - 7" (UTC).')
@click.option("--max-cost", type=float, help="Refuse when the estimate is over this many dollars.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False))
@click.option("-v", "--verbose", is_flag=True)
def iceberg_compact(pattern: str, strategy: str, target_file_size: str | None, **given: Any) -> int:
    """Compact one table and exit: 0 done or nothing to do, 1 failed, 2 wrong usage, 130 interrupted."""
    from icepack.cli.act import DONE
    from icepack.cli.interrupt import stoppable
    from icepack.cli.options import build_action
    from icepack.cli.runs import show_record
    from icepack.config import load_config
    from icepack.domain.actions import ActionKind
    from icepack.domain.units import parse_size
    from icepack.errors import InvalidOption
    from icepack.wiring import build_app

    flags = {
        "strategy": strategy,
        "target_file_bytes": parse_size(target_file_size) if target_file_size else None,
        "partition_filter": given["partition_filter"],
        "max_cost_dollars": given["max_cost"],
    }
    try:
        action = build_action(ActionKind.COMPACT, flags)
    except ValueError as exc:
        raise InvalidOption(f"{exc}.") from exc
    path = Path(given["config_file"]) if given["config_file"] else None
    loaded = load_config(path, environ=os.environ, overrides=_catalog(given), cwd=Path.cwd())
    app = build_app(loaded, environ=os.environ, announce=lambda text: click.echo(text, err=True))
    try:
        with stoppable() as cancel:
            record = app.service.run(app.service.table(pattern), action, cancel=cancel)
        show_record(record)
        return 0 if record.state in DONE else 130 if cancel.is_set() else 1
    finally:
        app.close()


def _catalog(given: dict[str, Any]) -> dict[str, Any]:
    """A catalog from the flags; the table may then leave it out, for it is the only one."""
    if not given["catalog_uri"]:
        return {}
    uri = given["catalog_uri"]
    kind = given["catalog_type"] or _kind_of(uri)
    properties = {"type": kind, "uri": uri, "warehouse": given["warehouse"]}
    return {"catalogs": {given["catalog_name"]: {key: value for key, value in properties.items() if value}}}


def _kind_of(uri: str) -> str:
    scheme = uri.partition(":")[0]
    return {"http": "rest", "https": "rest", "thrift": "hive"}.get(scheme, "sql")


def main() -> None:
    sys.exit(run_command(iceberg_compact, None, prog_name="iceberg-compact"))
