"""`icepack demo`: a sick lake, healed before your eyes."""

from __future__ import annotations

import os
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import click
import yaml

from icepack.cli.console import say
from icepack.cli.context import read_config
from icepack.cli.interrupt import stoppable
from icepack.cli.output import render, runs
from icepack.config import CompactionConfig, EmbeddedLake, LoadedConfig
from icepack.demo.lake import build_lake
from icepack.domain.table import TableId
from icepack.wiring import App, build_app

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
"""For a minute on tiny tables: half of the JVM's CPU time would go into optimising code that is about to end."""


@click.command()
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False), help="Where to build it; else the user's data folder."
)
@click.option("--scale", default=1.0, show_default=True, type=click.FloatRange(min=0.01), help="Times as many rows.")
@click.pass_context
def demo(ctx: click.Context, folder: str | None, scale: float) -> int:
    """Build a sample lake whose tables each have a real ailment, heal it, show before and after."""
    lake = EmbeddedLake(Path(folder).absolute()) if folder else EmbeddedLake.of_user(os.environ)
    app = build_app(
        _configuration(read_config(ctx), lake, own_history=folder is not None),
        environ=os.environ,
        announce=lambda text: click.echo(text, err=True),
    )
    try:
        say(f"Building a sample lake in {os.path.relpath(lake.folder) if folder else lake.folder} …")
        tables = build_lake(
            lake, scale=scale, query=lambda: app.engine, now=datetime.now(UTC), tell=lambda text: say(f"  {text}")
        )
        if folder:
            _write_config(app.loaded.config, lake)
        with stoppable() as cancel:
            return _heal(app, tables, cancel, lake if folder else None)
    finally:
        app.close()


def _configuration(loaded: LoadedConfig, lake: EmbeddedLake, *, own_history: bool) -> LoadedConfig:
    """This lake with the default policy; a lake in a folder of its own has its history beside it."""
    state = f"sqlite:///{lake.folder / 'state.db'}" if own_history else loaded.config.state.url
    spark = loaded.config.spark.model_copy(update={"conf": {**SHORT_LIVED, **loaded.config.spark.conf}})
    config = CompactionConfig.model_validate(
        {"catalogs": {"lake": lake.properties}, "state": {"url": state}, "spark": spark}
    )
    return LoadedConfig(config=config, source=None, lake=lake)


def _write_config(config: CompactionConfig, lake: EmbeddedLake) -> None:
    content = {"catalogs": dict(config.catalogs), "state": {"url": config.state.url}}
    (lake.folder / "icepack.yaml").write_text(yaml.safe_dump(content, sort_keys=False))


def _heal(app: App, tables: list[TableId], cancel: Event, lake: EmbeddedLake | None) -> int:
    service = app.service
    render.print_health_table([service.assess(table) for table in tables], title="Before")
    advice = [service.advise(table) for table in tables]
    steps = runs.maintain_with_bar(service, [item for item in advice if item.recommendation.actions], cancel, "table")
    if cancel.is_set():
        say("Stopped; every table is as it was or as it should be.")
        return 130
    runs.show_steps(steps)
    proofs = [proof for step in steps if step.record for proof in step.record.proofs]
    say(f"{sum(proof.holds for proof in proofs)} of {len(proofs)} proofs hold that no commit changed a row.")
    _what_next(lake)
    return runs.exit_code(steps)


def _what_next(lake: EmbeddedLake | None) -> None:
    program = _program()
    command = f"{program} --config {os.path.relpath(lake.folder / 'icepack.yaml')}" if lake else program
    say("\nWhat to type next:")
    for words, why in (
        ("health", "the scores now"),
        ("history", "what was done, what it gained and took"),
        ("recommend --explain", "why there is nothing left to do"),
        ("maintain --all", "a second run finds nothing"),
    ):
        say(f"  {command} {words:<22} {why}")
    say(f"Your own lake: {program} init")


def _program() -> str:
    """How to call icepack from here: by its name where that finds it, else by its path."""
    called = Path(sys.argv[0])
    if called.name != "icepack" or shutil.which("icepack") == str(called):
        return "icepack"
    return os.path.relpath(called)
