"""The `icepack` command: commands are imported when they are called, so that `--help` answers at once."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from icepack import __version__
from icepack.errors import IcepackError

COMMANDS = {
    "tables": ("icepack.cli.commands.read:tables", "List every table of the lake."),
    "inspect": ("icepack.cli.commands.read:inspect", "Show what a table's metadata says."),
    "health": ("icepack.cli.commands.read:health", "Score tables and say what is wrong with them."),
    "recommend": ("icepack.cli.commands.read:recommend", "Say what to do about it, in which order, at what cost."),
    "plan": ("icepack.cli.commands.read:plan", "Dry run: file groups, order, bytes, expected cost and time."),
    "run": ("icepack.cli.commands.run:run", "Run one action on one table."),
    "maintain": ("icepack.cli.commands.run:maintain", "Do everything that is recommended."),
    "history": ("icepack.cli.commands.read:history", "Show what was done, what it gained and cost."),
    "verify": ("icepack.cli.commands.verify:verify", "Compare snapshots of a table by value."),
    "jobs": ("icepack.cli.commands.jobs:jobs", "List, show, submit, cancel or retry queued work."),
    "up": ("icepack.cli.commands.serve:up", "Serve everything on one machine."),
    "api": ("icepack.cli.commands.serve:api", "Serve the API alone."),
    "keys": ("icepack.cli.commands.keys:keys", "Make, list or revoke keys for the API."),
    "worker": ("icepack.cli.commands.worker:worker", "Run queued jobs."),
    "scheduler": ("icepack.cli.commands.fleet:scheduler", "Submit jobs by their schedules."),
    "schedule": ("icepack.cli.commands.fleet:schedule", "Say what runs next, and when."),
    "orchestrate": ("icepack.cli.commands.fleet:orchestrate", "Turn recommendations into jobs, fleet-wide."),
    "health-sync": ("icepack.cli.commands.fleet:health_sync", "Keep the table cache up to date."),
    "metrics": ("icepack.cli.commands.metrics:metrics", "Print the figures that Prometheus scrapes."),
    "locks": ("icepack.cli.commands.worker:locks", "Show, or break, the locks on tables."),
    "native": ("icepack.cli.commands.native:native", "Say where the native rewrite is off, switch it off or on."),
    "db": ("icepack.cli.commands.worker:db", "Upgrade or prune the state database."),
    "config": ("icepack.cli.commands.setup:config", "Show or check the configuration."),
    "doctor": ("icepack.cli.commands.setup:doctor", "Check Python, Java, Spark, catalogs and storage."),
    "init": ("icepack.cli.commands.setup:init", "Write a starter icepack.yaml."),
    "demo": ("icepack.cli.commands.demo:demo", "Build a sample lake, heal it, show before and after."),
    "jars": ("icepack.cli.commands.setup:jars", "Fetch the jars that Spark needs."),
}


class LazyGroup(click.Group):
    """Knows its commands by name and one line of help; imports one only to run it."""

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
@click.option("--config", "config_file", type=click.Path(dir_okay=False), help="The icepack.yaml to use.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Set one value: --set spark.master=local[4]."
)
@click.option("-v", "--verbose", is_flag=True, help="Show what goes on, and stack traces.")
@click.option(
    "--log-format",
    type=click.Choice(["auto", "human", "json"]),
    default="auto",
    show_default=True,
    envvar="ICEPACK_LOG_FORMAT",
    help="How a service logs; auto is human on a terminal and JSON elsewhere.",
)
@click.pass_context
def cli(ctx: click.Context, config_file: str | None, settings: tuple[str, ...], verbose: bool, log_format: str) -> None:
    """Keep Apache Iceberg tables healthy: find, diagnose, plan, heal on Spark, prove, remember."""
    ctx.obj = {"config_file": config_file, "settings": settings, "verbose": verbose, "log_format": log_format}


def main(arguments: list[str] | None = None) -> None:
    """The entry point: every error ends in one sentence and the right exit code."""
    sys.exit(run_command(cli, arguments, prog_name="icepack"))


def run_command(command: click.Command, arguments: list[str] | None, prog_name: str) -> int:
    verbose = _is_verbose(arguments if arguments is not None else sys.argv[1:])
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
        return _complain(str(exc), exc.exit_code, exc, verbose)
    except Exception as exc:
        text = f"Unexpected {type(exc).__name__}: {exc}. Run it again with --verbose for the stack trace."
        return _complain(text, 1, exc, verbose)


def _is_verbose(arguments: list[str]) -> bool:
    return any(argument in ("-v", "--verbose") for argument in arguments)


def _complain(sentence: str, code: int, exc: Exception, verbose: bool) -> int:
    if verbose:
        import traceback

        traceback.print_exception(exc)
    click.echo(f"icepack: {sentence}", err=True)
    return code


if __name__ == "__main__":
    main()
