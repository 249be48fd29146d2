"""Filters, sorts and paginates the list of tables in memory."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from icepack.api.errors import InvalidParameter
from icepack.domain.access import matches_glob
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.ports.table_cache import TableSummary
from icepack.domain.table import TableId
from icepack.service.views.table_index import TableListEntry, TableListing

Sort = Literal[
    "score",
    "-score",
    "name",
    "-name",
    "files",
    "-files",
    "bytes",
    "-bytes",
    "deletes",
    "-deletes",
    "changed",
    "-changed",
]
# Where an entry stands in a sorted list: its sort key, then its name.
Position = tuple[int, TableId]
MAX_CACHED_SELECTIONS = 64
_SORT_KEYS: dict[str, Callable[[TableSummary], int]] = {
    "score": lambda summary: summary.score,
    "name": lambda _: 0,
    "files": lambda summary: summary.totals.data_files,
    "bytes": lambda summary: summary.totals.bytes,
    "deletes": lambda summary: summary.totals.delete_files,
    "changed": lambda summary: (
        round(summary.brief.last_commit_at.timestamp() * 1e6) if summary.brief.last_commit_at else 0
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFilter:
    """Selects the tables that match all of its conditions."""

    search: str = ""
    catalog: str | None = None
    # A glob.
    namespace: str | None = None
    # Matches tables with any of these issues.
    issues: frozenset[IssueCode] = frozenset()
    # The severity of the worst issue; `healthy` matches tables without issues.
    severity: str | None = None
    action: ActionKind | None = None
    native_disabled: bool | None = None
    # The tables whose native rewrite is disabled; only set if `native_disabled` is.
    disabled_tables: frozenset[TableId] = frozenset()
    min_score: int = 0
    max_score: int = 100


def list_tables(listing: TableListing, wanted: TableFilter, sort: Sort) -> Sequence[TableListEntry]:
    """Returns the matching tables in order; results are cached with the listing."""
    ascending = _filter_sorted(listing, wanted, sort.lstrip("-"))
    return ascending[::-1] if sort.startswith("-") else ascending


def _filter_sorted(listing: TableListing, wanted: TableFilter, key: str) -> tuple[TableListEntry, ...]:
    if wanted == TableFilter():
        return _sort(listing, key)
    found = listing.selections.get((wanted, key))
    if found is None:
        found = _filter(_sort(listing, key), wanted)
        if len(listing.selections) >= MAX_CACHED_SELECTIONS:
            listing.selections.clear()
        listing.selections[wanted, key] = found
    return found


def _sort(listing: TableListing, key: str) -> tuple[TableListEntry, ...]:
    """Sorts once for each key: with ten thousand tables, sorting takes longer than everything else on a page."""
    if key == "name":
        return listing.entries
    if key not in listing.orders:
        listing.orders[key] = tuple(sorted(listing.entries, key=lambda entry: get_position(entry, key)))
    return listing.orders[key]


def _filter(entries: Sequence[TableListEntry], wanted: TableFilter) -> tuple[TableListEntry, ...]:
    """Applies the cheapest conditions first."""
    text = wanted.search.lower()
    if text:
        entries = [entry for entry in entries if text in entry.folded]
    if wanted.namespace is not None:
        namespaces = {name for name in {entry.namespace for entry in entries} if matches_glob(wanted.namespace, name)}
        entries = [entry for entry in entries if entry.namespace in namespaces]
    rest = replace(wanted, search="", namespace=None)
    return tuple(entries if rest == TableFilter() else (entry for entry in entries if _matches(entry.summary, rest)))


def _matches(summary: TableSummary, wanted: TableFilter) -> bool:
    brief = summary.brief
    is_disabled = summary.table in wanted.disabled_tables
    return (
        wanted.min_score <= summary.score <= wanted.max_score
        and (wanted.catalog is None or summary.table.catalog == wanted.catalog)
        and (not wanted.issues or not wanted.issues.isdisjoint(brief.issues))
        and (wanted.action is None or wanted.action in brief.actions)
        and (wanted.native_disabled is None or wanted.native_disabled == is_disabled)
        and (wanted.severity is None or wanted.severity == (brief.severity or "healthy"))
    )


def get_position(entry: TableListEntry, key: str) -> Position:
    return _SORT_KEYS[key](entry.summary), entry.summary.table


def skip_to(entries: Sequence[TableListEntry], sort: Sort, last: Position) -> Sequence[TableListEntry]:
    """Returns the entries after a position; they stay consistent when tables are added or removed."""
    key = sort.lstrip("-")
    if sort.startswith("-"):
        ascending = entries[::-1]
        return ascending[: bisect_left(ascending, last, key=lambda entry: get_position(entry, key))][::-1]
    return entries[bisect_right(entries, last, key=lambda entry: get_position(entry, key)) :]


def encode_cursor(entry: TableListEntry, sort: Sort) -> str:
    value, table = get_position(entry, sort.lstrip("-"))
    return base64.urlsafe_b64encode(json.dumps([value, str(table)]).encode()).decode()


def decode_cursor(cursor: str) -> Position:
    try:
        value, name = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return int(value), TableId.parse(name)
    except (ValueError, TypeError, AttributeError, OverflowError, binascii.Error, RecursionError, UnicodeError) as exc:
        remedy = "Pass the next_cursor of a page, or omit it to get the first page."
        raise InvalidParameter("cursor", "Invalid cursor.", remedy) from exc
