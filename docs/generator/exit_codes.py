"""Generates docs/reference/exit-codes.md: the exit codes, and the code of each error."""

from __future__ import annotations

import re
from collections.abc import Iterator

from generator.markdown import code, section, table
from generator.markdown import page as markdown_page
from generator.words import Undocumented, words

# Imported for the errors that they define.
from icepack import client as _client  # noqa: F401
from icepack import errors
from icepack.api import app as _api  # noqa: F401
from icepack.cli.commands import fleet as _fleet  # noqa: F401
from icepack.errors import IcepackError

_BRANCH = re.compile(r"^[│├└─ ]*(\w+) {2,}(.+)$", re.MULTILINE)


def kinds(kind: type[IcepackError] = IcepackError) -> Iterator[type[IcepackError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from kinds(inner)


def page() -> str:
    codes = table(("code", "meaning"), [(code(number), text) for number, text in words("exit_codes").items()])
    # In the order of the tree, which does not depend on what was imported first.
    tree = list(_tree())
    found = sorted({kind for kind in kinds() if kind is not IcepackError}, key=lambda kind: _place(tree, kind))
    rows = [(code(kind.__name__), code(kind.exit_code), _meaning(kind)) for kind in found]
    return markdown_page(
        "Exit codes",
        words("pages", "exit_codes"),
        codes,
        section("Errors", words("pages", "errors"), table(("error", "exit code", "meaning"), rows)),
    )


def _tree() -> dict[str, str]:
    return dict(_BRANCH.findall(errors.__doc__ or ""))


def _place(tree: list[str], kind: type[IcepackError]) -> int:
    return tree.index(kind.__name__) if kind.__name__ in tree else len(tree)


def _meaning(kind: type[IcepackError]) -> str:
    """The text of the error in the tree in the module's docstring."""
    text = _tree()
    if kind.__name__ not in text:
        raise Undocumented(f"{kind.__name__} is missing from the tree in icepack.errors.")
    return str(text[kind.__name__])
