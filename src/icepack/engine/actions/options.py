"""Action parameters as the options of Iceberg's own actions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from icepack.domain.actions import Compact, Strategy
from icepack.errors import InvalidOption

_DIRECTION = re.compile(r"(?is)(?P<column>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*$")


def compaction_options(action: Compact) -> dict[str, str]:
    """What the typed parameters mean to `rewrite_data_files`; options given by hand win."""
    options: dict[str, str] = {
        "min-input-files": str(action.min_input_files),
        # Under its starting number, a commit of Iceberg 1.12 may drop an equality delete that came meanwhile.
        "use-starting-sequence-number": "false",
    }
    if action.target_file_bytes is not None:
        options["target-file-size-bytes"] = str(action.target_file_bytes)
    if action.strategy is Strategy.DELETE_FILES:
        # Sizes are another strategy's business: only deletes make a file worth rewriting here.
        options |= {"min-file-size-bytes": "0", "max-file-size-bytes": str(2**63 - 1)}
    elif action.small_file_bytes is not None:
        options["min-file-size-bytes"] = str(action.small_file_bytes)
    if action.delete_file_threshold is not None:
        options["delete-file-threshold"] = str(action.delete_file_threshold)
    if action.partial_progress:
        options["partial-progress.enabled"] = "true"
    if action.rewrite_all:
        options["rewrite-all"] = "true"
    return options | dict(action.options)


@dataclass(frozen=True, slots=True)
class SortColumn:
    name: str
    descending: bool
    nulls_first: bool


def sort_column(text: str) -> SortColumn:
    """`name`, `name desc`, `name asc nulls last`; nulls come first when ascending, as in Iceberg."""
    found = _DIRECTION.match(text.strip())
    if found is None:
        raise InvalidOption(f"'{text}' is not a sort column.", "Write: name, name desc, or name asc nulls last.")
    descending = (found["direction"] or "asc").lower() == "desc"
    nulls_first = (found["nulls"] or ("last" if descending else "first")).lower() == "first"
    return SortColumn(found["column"].strip(), descending, nulls_first)


def take_known(options: Mapping[str, str], known: frozenset[str], action: str) -> dict[str, str]:
    unknown = sorted(set(options) - known)
    if unknown:
        there_are = f"There are: {', '.join(sorted(known))}." if known else "It has none."
        raise InvalidOption(f"{action} has no option '{unknown[0]}'.", there_are)
    return dict(options)


def at_least_one(options: Mapping[str, str], name: str) -> int:
    """A count; 1 where it is not given."""
    text = options.get(name, "1").strip()
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"{name} should be a whole number from 1 on, not '{text}'.")
    return int(text)


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    return options.get(name, str(default)).strip().lower() == "true"


def mapping(text: str) -> dict[str, str]:
    """`a=b;c=d` as a mapping; keys may themselves be comma-separated lists."""
    pairs = [pair.partition("=") for pair in text.split(";") if pair.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}
