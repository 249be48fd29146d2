"""Converts action parameters into the options of Iceberg's actions, and parses option values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from icepack.domain.actions import Compact, Strategy
from icepack.errors import InvalidOption

_SORT_COLUMN = re.compile(
    r"(?is)(?P<column>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*$"
)


def compaction_options(action: Compact) -> dict[str, str]:
    """The options of `rewrite_data_files` for these parameters; explicit options take precedence."""
    options: dict[str, str] = {
        "min-input-files": str(action.min_input_files),
        # With the starting sequence number, a commit of Iceberg 1.12 may drop an equality delete that was committed
        # during the rewrite.
        "use-starting-sequence-number": "false",
    }
    if action.target_file_bytes is not None:
        options["target-file-size-bytes"] = str(action.target_file_bytes)
    if action.strategy is Strategy.DELETE_FILES:
        # This strategy selects files by their deletes only, so no file is too small or too large.
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


def parse_sort_column(text: str) -> SortColumn:
    """Parses `name`, `name desc` or `name asc nulls last`; nulls are first when ascending, as in Iceberg."""
    found = _SORT_COLUMN.match(text.strip())
    if found is None:
        raise InvalidOption(f"Invalid sort column '{text}'.", "Use: name, name desc, or name asc nulls last.")
    descending = (found["direction"] or "asc").lower() == "desc"
    nulls_first = (found["nulls"] or ("last" if descending else "first")).lower() == "first"
    return SortColumn(found["column"].strip(), descending, nulls_first)


def check_options(options: Mapping[str, str], known: frozenset[str], action: str) -> dict[str, str]:
    unknown = sorted(set(options) - known)
    if unknown:
        supported = f"Supported options: {', '.join(sorted(known))}." if known else "It has no options."
        raise InvalidOption(f"{action} has no option '{unknown[0]}'.", supported)
    return dict(options)


def parse_count(options: Mapping[str, str], name: str) -> int:
    """Parses an option that is a positive integer; the default is 1."""
    text = options.get(name, "1").strip()
    if not text.isdecimal() or int(text) < 1:
        raise InvalidOption(f"{name} must be an integer of at least 1, not '{text}'.")
    return int(text)


def parse_flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    return options.get(name, str(default)).strip().lower() == "true"


def parse_mapping(text: str) -> dict[str, str]:
    """Parses `a=b;c=d`; a key may be a comma-separated list."""
    pairs = [pair.partition("=") for pair in text.split(";") if pair.strip()]
    return {key.strip(): value.strip() for key, _, value in pairs}
