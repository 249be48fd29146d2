"""`iceberg-compact`: one compaction of one table, the name that CronJobs call."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from icepack import __version__
from icepack.cli.main import run_command
from icepack.cli.options import given_parameters, proof_option, size, strategy_type
from icepack.domain.actions import ActionKind, Strategy

_PARAMETERS = ("target_file_bytes", "partition_filter", "max_cost_dollars", "proof")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iceberg-compact")
@click.option("--catalog-uri", envvar="CATALOG_URI", help="The catalog's address; without it, icepack.yaml says.")
@click.option("--catalog-type", help="rest, sql, hive, glue; told from the address when it can be.")
@click.option("--catalog-name", default="default", show_default=True, help="The catalog's name in icepack and Spark.")
@click.option("--warehouse", envvar="WAREHOUSE", help="The warehouse, for catalogs that do not know it.")
@click.option("--table", "pattern", required=True, help="namespace.table, or a bare name if it is unique.")
@click.option("--strategy", type=strategy_type, default="small_files", show_default=True, help="Which files to find.")
@click.option("--target-file-size", "target_file_bytes", type=size, help="512MB, 1GB …")
@click.option("--partition-filter", help='"date >= current_date - 7" (UTC).')
@proof_option
@click.option("--max-cost", "max_cost_dollars", type=float, help="Refuse when the estimate is over this many dollars.")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="The icepack.yaml to use.")
@click.option("-v", "--verbose", is_flag=True, help="Show stack traces.")
def iceberg_compact(pattern: str, strategy: Strategy, **given: Any) -> int:
    """Compact one table and exit: 0 done or nothing to do, 1 failed, 2 wrong usage, 130 interrupted."""
    from icepack.cli.interrupt import stoppable
    from icepack.cli.output.runs import show_record, state_code
    from icepack.config import load_config
    from icepack.wiring import build_app

    flags = {name: given[name] for name in _PARAMETERS if given[name]}
    wanted = given_parameters(ActionKind.COMPACT, {"strategy": strategy, **flags})
    path = Path(given["config_file"]) if given["config_file"] else None
    loaded = load_config(path, environ=os.environ, overrides=_catalog(given), cwd=Path.cwd())
    app = build_app(loaded, environ=os.environ, announce=lambda text: click.echo(text, err=True))
    try:
        table = app.service.table(pattern, given["catalog_name"] if given["catalog_uri"] else None)
        with stoppable() as cancel:
            record = app.service.run(table, app.service.prepare(table, ActionKind.COMPACT, wanted), cancel=cancel)
        show_record(record)
        return state_code(record.state)
    finally:
        app.close()


def _catalog(given: dict[str, Any]) -> dict[str, Any]:
    """A catalog from the flags, in which the table is then looked for, whatever else is configured."""
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
