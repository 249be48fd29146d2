"""Runs one health-sync cycle and exits, for a Kubernetes CronJob: `python -m icepack.health_sync_job`."""

from __future__ import annotations

import sys

from icepack.cli.main import cli, run_command


def main(arguments: list[str] | None = None) -> None:
    """Takes the options of `icepack`, such as --config; exits like `icepack health-sync --once`."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run_command(cli, [*given, "health-sync", "--once"], prog_name="icepack"))


if __name__ == "__main__":
    main()
