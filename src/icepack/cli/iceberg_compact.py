"""`iceberg-compact`: compacts one table and exits, for Kubernetes CronJobs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from icepack import __version__
from icepack.cli.main import run_command
from icepack.cli.options import parse_parameters, proof_option, size_type, strategy_type
from icepack.domain.actions import ActionKind, Strategy

_PARAMETERS = ("target_file_bytes", "partition_filter", "max_cost_dollars", "proof")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="iceberg-compact")
@click.option("--catalog-uri", envvar="CATALOG_URI", help="URI of the catalog; default: the catalogs of icepack.yaml.")
@click.option("--catalog-type", help="rest, sql, hive or glue; default: derived from the URI.")
@click.option("--catalog-name", default="default", show_default=True, help="Name of the catalog in icepack and Spark.")
@click.option("--warehouse", envvar="WAREHOUSE", help="Warehouse location, for catalogs that need it.")
@click.option("--table", "pattern", required=True, help="namespace.table, or the bare table name if it is unique.")
@click.option(
    "--strategy", type=strategy_type, default="small_files", show_default=True, help="Which files to rewrite."
)
@click.option("--target-file-size", "target_file_bytes", type=size_type, help="Target size: 512MB, 1GB.")
@click.option("--partition-filter", help='Rewrite only these partitions: "date >= current_date - 7" (UTC).')
@proof_option
@click.option(
    "--max-cost", "max_cost_dollars", type=float, help="Refuse to run if the estimated cost is over this many dollars."
)
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Path of the icepack.yaml to use.")
@click.option("-v", "--verbose", is_flag=True, help="Show stack traces.")
def iceberg_compact(pattern: str, strategy: Strategy, **given: Any) -> int:
    """Compact one table and exit with 0 (done or nothing to do), 1 (failed), 2 (wrong usage) or 130 (interrupted)."""
    from icepack.cli.context import print_notice
    from icepack.cli.output.runs import exit_code_of, show_record
    from icepack.cli.signals import cancel_on_signal
    from icepack.config import load_config
    from icepack.wiring import build_app

    flags = {name: given[name] for name in _PARAMETERS if given[name]}
    parameters = parse_parameters(ActionKind.COMPACT, {"strategy": strategy, **flags})
    path = Path(given["config_file"]) if given["config_file"] else None
    loaded = load_config(path, environ=os.environ, overrides=_catalog_settings(given), cwd=Path.cwd())
    app = build_app(loaded, environ=os.environ, announce=print_notice)
    try:
        table = app.service.table(pattern, given["catalog_name"] if given["catalog_uri"] else None)
        with cancel_on_signal() as cancel:
            record = app.service.run(table, app.service.prepare(table, ActionKind.COMPACT, parameters), cancel=cancel)
        show_record(record)
        return exit_code_of(record.state)
    finally:
        app.close()


def _catalog_settings(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the catalog that the flags define; the table is then looked up in it, whatever else is configured."""
    if not given["catalog_uri"]:
        return {}
    uri = given["catalog_uri"]
    kind = given["catalog_type"] or _guess_type(uri)
    properties = {"type": kind, "uri": uri, "warehouse": given["warehouse"]}
    return {"catalogs": {given["catalog_name"]: {key: value for key, value in properties.items() if value}}}


def _guess_type(uri: str) -> str:
    scheme = uri.partition(":")[0]
    return {"http": "rest", "https": "rest", "thrift": "hive"}.get(scheme, "sql")


def main() -> None:
    sys.exit(run_command(iceberg_compact, None, prog_name="iceberg-compact"))
