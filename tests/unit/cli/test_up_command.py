"""The worker that `icepack up` starts is told what `icepack up` was told."""

from __future__ import annotations

import click

from icepack.cli.commands.serve import _worker_command
from icepack.cli.main import cli


def test_the_worker_gets_the_settings_and_the_log_format() -> None:
    told = {"config_file": "lake.yaml", "settings": ("server.port=1",), "log_format": "json"}
    command = _worker_command(click.Context(click.Command("up"), obj=told))
    given = command[command.index("icepack.cli.main") + 1 :]
    assert given[-3:] == ["worker", "--loop", "--attached"]
    parsed = cli.make_parser(click.Context(cli)).parse_args(list(given))[0]
    assert (parsed["log_format"], parsed["config_file"], list(parsed["settings"])) == (
        "json",
        "lake.yaml",
        ["server.port=1"],
    )
