"""Runs one queued job and exits, for a pod that KEDA starts for each job: `python -m icepack.worker`."""

from __future__ import annotations

import sys

from icepack.cli.main import cli, run_command


def main(arguments: list[str] | None = None) -> None:
    """Takes the options of `icepack`, such as --config; exits like `icepack worker`."""
    given = sys.argv[1:] if arguments is None else arguments
    sys.exit(run_command(cli, [*given, "worker"], prog_name="icepack"))


if __name__ == "__main__":
    main()
