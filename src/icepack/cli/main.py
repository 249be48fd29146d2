"""The `icepack` command; a command's module is imported only when it is called, so that `--help` is fast."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from icepack import __version__
from icepack.errors import IcepackError, MissingExtra, find_missing_extra

COMMANDS = {
    "tables": ("icepack.cli.commands.read:tables", "List the tables of all catalogs."),
    "inspect": ("icepack.cli.commands.read:inspect", "Show the files, partitions and snapshots of a table."),
    "health": ("icepack.cli.commands.read:health", "Score tables and list their issues."),
    "recommend": ("icepack.cli.commands.read:recommend", "Recommend actions, with their order and estimated cost."),
    "plan": ("icepack.cli.commands.read:plan", "Dry run: file groups, order, estimated cost and time."),
    "run": ("icepack.cli.commands.run:run", "Run one action on one table."),
    "maintain": ("icepack.cli.commands.run:maintain", "Run all recommended actions."),
    "history": ("icepack.cli.commands.read:history", "Show past runs, their effect and cost."),
    "verify": ("icepack.cli.commands.verify:verify", "Compare snapshots of a table by value."),
    "jobs": ("icepack.cli.commands.jobs:jobs", "List, show, submit, cancel and retry jobs."),
    "up": ("icepack.cli.commands.serve:up", "Run the whole service on one machine."),
    "api": ("icepack.cli.commands.serve:api", "Run the API server."),
    "keys": ("icepack.cli.commands.keys:keys", "Create, list and revoke API keys."),
    "worker": ("icepack.cli.commands.worker:worker", "Run queued jobs."),
    "scheduler": ("icepack.cli.commands.fleet:scheduler", "Submit jobs by schedule."),
    "schedule": ("icepack.cli.commands.fleet:schedule", "Show upcoming scheduled runs."),
    "orchestrate": ("icepack.cli.commands.fleet:orchestrate", "Submit recommended actions of all tables as jobs."),
    "health-sync": ("icepack.cli.commands.fleet:health_sync", "Keep the table cache up to date."),
    "metrics": ("icepack.cli.commands.metrics:metrics", "Print or push metrics."),
    "locks": ("icepack.cli.commands.locks:locks", "Show or break table locks."),
    "native": ("icepack.cli.commands.native:native", "List, disable and enable the native rewrite by table."),
    "db": ("icepack.cli.commands.database:db", "Upgrade or prune the state database."),
    "config": ("icepack.cli.commands.setup:config", "Show or check the configuration."),
    "doctor": ("icepack.cli.commands.setup:doctor", "Check Python, Java, Spark, catalogs and storage."),
    "init": ("icepack.cli.commands.setup:init", "Write a starter icepack.yaml."),
    "demo": ("icepack.cli.commands.demo:demo", "Build a sample lake, maintain it, show before and after."),
    "jars": ("icepack.cli.commands.setup:jars", "Download the jars that Spark needs."),
}

# These commands need more than the extra that installs the module which happens to be missing first.
_COMMAND_EXTRAS = {"api": "api", "up": "api,spark"}


class LazyGroup(click.Group):
    """A group that imports a command only to run it; its help needs no import."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="icepack")
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="Path of the icepack.yaml to use.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Override one setting: --set spark.master=local[4]."
)
@click.option("-v", "--verbose", is_flag=True, help="Show log lines and stack traces.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "human", "json"]),
    default="auto",
    show_default=True,
    envvar="ICEPACK_LOG_FORMAT",
    help="Log format of services; auto is human on a terminal and JSON elsewhere.",
)
@click.pass_context
def cli(ctx: click.Context, config_file: str | None, settings: tuple[str, ...], verbose: bool, log_format: str) -> None:
    """Keep Apache Iceberg tables healthy: inspect them, recommend maintenance, run it on Spark, verify the result."""
    ctx.obj = {"config_file": config_file, "settings": settings, "verbose": verbose, "log_format": log_format}


def main(arguments: list[str] | None = None) -> None:
    sys.exit(run_command(cli, arguments, prog_name="icepack"))


def run_command(command: click.Command, arguments: list[str] | None, prog_name: str) -> int:
    """Runs a command and returns its exit code; every error is printed in one sentence."""
    given = arguments if arguments is not None else sys.argv[1:]
    verbose = _is_verbose(given)
    try:
        result: Any = command.main(arguments, prog_name=prog_name, standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as exc:
        return exc.exit_code
    except click.exceptions.NoArgsIsHelpError as exc:
        click.echo(exc.format_message())
        return 2
    except click.ClickException as exc:
        exc.show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except IcepackError as exc:
        return _print_error(str(exc), exc.exit_code, exc, verbose)
    except Exception as exc:
        missing = _find_missing_extra(exc, given)
        if missing is not None:
            return _print_error(str(missing), missing.exit_code, exc, verbose)
        text = f"Unexpected {type(exc).__name__}: {exc}. Run the command again with --verbose for the stack trace."
        return _print_error(text, 1, exc, verbose)


def _is_verbose(arguments: list[str]) -> bool:
    return any(argument in ("-v", "--verbose") for argument in arguments)


def _find_missing_extra(exc: Exception, arguments: list[str]) -> MissingExtra | None:
    missing = find_missing_extra(exc) if isinstance(exc, ModuleNotFoundError) else None
    if missing is None or missing.extra not in ("api", "spark"):
        return missing
    command = next((argument for argument in arguments if argument in COMMANDS), "")
    return MissingExtra(_COMMAND_EXTRAS.get(command, missing.extra))


def _print_error(sentence: str, code: int, exc: Exception, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exception(exc)
    click.echo(f"icepack: {sentence}", err=True)
    return code


if __name__ == "__main__":
    main()
