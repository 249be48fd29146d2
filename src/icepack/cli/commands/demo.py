"""The demo command: builds a sample lake whose tables have typical problems, and maintains it."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import click
import yaml

from icepack.cli.console import print_text
from icepack.cli.context import print_notice, read_config
from icepack.cli.exit_codes import INTERRUPTED
from icepack.cli.output.health import print_health_table
from icepack.cli.output.maintenance import maintenance_exit_code, run_maintenance, show_steps
from icepack.cli.signals import cancel_on_signal
from icepack.config import CompactionConfig, EmbeddedLake, LoadedConfig
from icepack.demo.lake import build_lake
from icepack.domain.table import TableId
from icepack.wiring import App, build_app

# Spark settings for tiny tables: a JVM that runs for a minute would spend half of its CPU time on optimizing code.
DEMO_SPARK_CONF = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}


@click.command()
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False), help="Folder of the lake; default: the user's data folder."
)
@click.option(
    "--scale", default=1.0, show_default=True, type=click.FloatRange(min=0.01), help="Multiplies the number of rows."
)
@click.pass_context
def demo(ctx: click.Context, folder: str | None, scale: float) -> int:
    """Build a sample lake whose tables have typical problems, maintain it, show before and after."""
    lake = EmbeddedLake(Path(folder).absolute()) if folder else EmbeddedLake.of_user(os.environ)
    app = build_app(
        _demo_config(read_config(ctx), lake, own_state=folder is not None),
        environ=os.environ,
        announce=print_notice,
    )
    try:
        print_text(f"Building a sample lake in {os.path.relpath(lake.folder) if folder else lake.folder} …")
        tables = build_lake(
            lake,
            scale=scale,
            query=lambda: app.query_engine,
            now=datetime.now(UTC),
            report=lambda text: print_text(f"  {text}"),
        )
        if folder:
            _write_config(app.loaded.config, lake)
        with cancel_on_signal() as cancel:
            return _maintain(app, tables, cancel, lake if folder else None)
    finally:
        app.close()


def _demo_config(loaded: LoadedConfig, lake: EmbeddedLake, *, own_state: bool) -> LoadedConfig:
    """Returns a configuration with this lake and the default policy; with `own_state`, the state is beside the lake."""
    state = f"sqlite:///{lake.folder / 'state.db'}" if own_state else loaded.config.state.url
    spark = loaded.config.spark.model_copy(update={"conf": {**DEMO_SPARK_CONF, **loaded.config.spark.conf}})
    config = CompactionConfig.model_validate(
        {"catalogs": {"lake": lake.properties}, "state": {"url": state}, "spark": spark}
    )
    return LoadedConfig(config=config, source=None, lake=lake)


def _write_config(config: CompactionConfig, lake: EmbeddedLake) -> None:
    content = {"catalogs": dict(config.catalogs), "state": {"url": config.state.url}}
    (lake.folder / "icepack.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _maintain(app: App, tables: list[TableId], cancel: Event, lake: EmbeddedLake | None) -> int:
    service = app.service
    print_health_table([service.assess(table) for table in tables], title="Before")
    advice = [service.advise(table) for table in tables]
    selected = [item for item in advice if item.recommendation.actions]
    steps = run_maintenance(service, selected, cancel, "table")
    if cancel.is_set():
        print_text("Stopped; every table is either unchanged or fully maintained.")
        return INTERRUPTED
    show_steps(steps)
    proofs = [proof for step in steps if step.record for proof in step.record.proofs]
    print_text(f"{sum(proof.holds for proof in proofs)} of {len(proofs)} proofs show that no commit changed a row.")
    _print_next_steps(lake)
    return maintenance_exit_code(steps)


def _print_next_steps(lake: EmbeddedLake | None) -> None:
    program = _program()
    command = f"{program} --config {os.path.relpath(lake.folder / 'icepack.yaml')}" if lake else program
    print_text("\nNext steps:")
    for arguments, effect in (
        ("health", "shows the scores now"),
        ("history", "shows each run, its effect and duration"),
        ("recommend --explain", "explains why nothing is left to do"),
        ("maintain --all", "finds nothing to do in a second run"),
    ):
        print_text(f"  {command} {arguments:<22} {effect}")
    print_text(f"To use your own catalogs: {program} init")


def _program() -> str:
    """Returns how to call icepack from here: by name if it is on PATH, else by path."""
    called = Path(sys.argv[0])
    if called.name != "icepack" or shutil.which("icepack") == str(called):
        return "icepack"
    return os.path.relpath(called)
