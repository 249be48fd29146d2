"""Generates docs/reference/cli.md: every command, argument and option, from Click."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from generator.markdown import anchor, code, codes, fence, section, table
from generator.markdown import page as markdown_page
from generator.words import words
from icepack.cli.iceberg_compact import iceberg_compact
from icepack.cli.main import cli
from icepack.cli.options import parse_parameters
from icepack.domain.actions import ActionKind
from icepack.errors import InvalidOption

_SAMPLES: dict[str, Any] = {
    "strategy": "small_files",
    "layout": "sort",
    "engine": "spark",
    "proof": "full",
    "columns": "a",
    "older_than": "7d",
    "options": ("key=value",),
    "snapshot_ids": (1,),
}
_COMMON_OPTIONS = ("--dry-run", "--format", "--help")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups before their members."""
    yield "icepack", cli
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield f"icepack {name}", command
        if isinstance(command, click.Group):
            yield from ((f"icepack {name} {inner}", member) for inner, member in command.commands.items())
    yield "iceberg-compact", iceberg_compact


def options(command: click.Command) -> list[click.Option]:
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def page() -> str:
    found = dict(commands())
    contents = "\n".join(f"- [{code(name)}]({anchor(name)})" for name in found)
    return markdown_page(
        "Command line", words("pages", "cli"), contents, *(_command(name, it) for name, it in found.items())
    )


def _command(name: str, command: click.Command) -> str:
    arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
    usage = " ".join([name, "[OPTIONS]", *(_argument(it) for it in arguments)])
    if isinstance(command, click.Group):
        usage += " COMMAND" if not command.invoke_without_command else " [COMMAND]"
    blocks = [fence(usage), " ".join((command.help or "").split()), _option_table(name, command)]
    if name == "icepack run":
        blocks.append(_action_table(command))
    return section(name, *blocks, _examples(name))


def _argument(argument: click.Argument) -> str:
    return argument.metavar or (argument.name or "").upper()


def _examples(name: str) -> str:
    return fence(str(words("examples", name)), "sh")


def _option_table(name: str, command: click.Command) -> str:
    rows = [(_spelling(option), option_words(name, option), _default(option)) for option in options(command)]
    return table(("option", "description", "default"), rows) if rows else ""


def _spelling(option: click.Option) -> str:
    names = codes(option.opts)
    return names if option.is_flag else f"{names} {_values(option)}"


def _values(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return codes(option.type.choices)
    return option.metavar or option.type.name.upper().removesuffix(" RANGE")


def option_words(name: str, option: click.Option) -> str:
    """The option's help text, or the text in words.yaml if it has none."""
    text = (option.help or words("options", name, option.opts[-1])).rstrip(". …")
    repeatable = " Can be repeated." if option.multiple else ""
    variable = f" Environment variable: {code(option.envvar)}." if option.envvar else ""
    return f"{text}.{repeatable}{variable}"


def _default(option: click.Option) -> str:
    default = option.to_info_dict()["default"]
    plain = isinstance(default, str | int | float) and not option.is_flag
    return code(default) if plain else ""


def _action_table(command: click.Command) -> str:
    """Which action accepts which option, found out by parsing it."""
    mine = [option for option in options(command) if option.opts[-1] not in _COMMON_OPTIONS]
    rows = [
        (code(option.opts[-1]), *("✓" if _accepts(kind, option.name or "") else "" for kind in ActionKind))
        for option in mine
    ]
    actions = table(("action", "description"), [(code(kind), words("actions", kind)) for kind in ActionKind])
    return "\n\n".join([actions, words("pages", "run"), table(("option", *codes(ActionKind).split(", ")), rows)])


def _accepts(kind: ActionKind, name: str) -> bool:
    try:
        parse_parameters(kind, {name: _SAMPLES.get(name, 1)})
    except InvalidOption:
        return False
    return True
