"""Which tables a list shows, in which order, and where a page of it begins; all of it in memory."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from icepack.domain.access import fits
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.ports.queue import TableSummary
from icepack.domain.table import TableId
from icepack.errors import InvalidOption
from icepack.service.views.table_index import ListEntry, Listing

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
Place = tuple[int, TableId]
MOST_SELECTIONS = 64
_KEYS: dict[str, Callable[[TableSummary], int]] = {
    "score": lambda item: item.score,
    "name": lambda _: 0,
    "files": lambda item: item.totals.data_files,
    "bytes": lambda item: item.totals.bytes,
    "deletes": lambda item: item.totals.delete_files,
    "changed": lambda item: round(item.brief.last_commit_at.timestamp() * 1e6) if item.brief.last_commit_at else 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filters narrow one another."""

    search: str = ""
    catalog: str | None = None
    namespace: str | None = None
    """A glob."""
    issues: frozenset[IssueCode] = frozenset()
    """Any of these."""
    severity: str | None = None
    """That of the worst issue; `healthy` for none."""
    action: ActionKind | None = None
    native_disabled: bool | None = None
    off: frozenset[TableId] = frozenset()
    """The tables whose native rewrite is off, where that is asked for."""
    min_score: int = 0
    max_score: int = 100


def select(listing: Listing, wanted: Wanted, sort: Sort) -> Sequence[ListEntry]:
    """Worked out once for as long as the listing lasts, unless too much else was asked for meanwhile."""
    upwards = _ordered(listing, wanted, sort.lstrip("-"))
    return upwards[::-1] if sort.startswith("-") else upwards


def _ordered(listing: Listing, wanted: Wanted, key: str) -> tuple[ListEntry, ...]:
    if wanted == Wanted():
        return _sorted(listing, key)
    found = listing.selections.get((wanted, key))
    if found is None:
        found = _narrowed(listing, wanted, key)
        if len(listing.selections) >= MOST_SELECTIONS:
            listing.selections.clear()
        listing.selections[wanted, key] = found
    return found


def _sorted(listing: Listing, key: str) -> tuple[ListEntry, ...]:
    """Kept for good: there are few orders, and to sort ten thousand tables takes longer than all else of a page."""
    if key == "name":
        return listing.entries
    if key not in listing.orders:
        listing.orders[key] = tuple(sorted(listing.entries, key=lambda item: place(item, key)))
    return listing.orders[key]


def _narrowed(listing: Listing, wanted: Wanted, key: str) -> tuple[ListEntry, ...]:
    """What costs least comes first."""
    found: Iterable[ListEntry] = _sorted(listing, key)
    text = wanted.search.lower()
    if text:
        found = [item for item in found if text in item.folded]
    if wanted.namespace is not None:
        meant = {name for name in {item.namespace for item in found} if fits(wanted.namespace, name)}
        found = [item for item in found if item.namespace in meant]
    rest = replace(wanted, search="", namespace=None)
    return tuple(found if rest == Wanted() else (item for item in found if _fits(item.summary, rest)))


def _fits(item: TableSummary, wanted: Wanted) -> bool:
    brief = item.brief
    return (
        wanted.min_score <= item.score <= wanted.max_score
        and (wanted.catalog is None or item.table.catalog == wanted.catalog)
        and (not wanted.issues or not wanted.issues.isdisjoint(brief.issues))
        and (wanted.action is None or wanted.action in brief.actions)
        and (wanted.native_disabled is None or wanted.native_disabled == (item.table in wanted.off))
        and (wanted.severity is None or wanted.severity == (brief.severity or "healthy"))
    )


def place(item: ListEntry, key: str) -> Place:
    return _KEYS[key](item.summary), item.summary.table


def after(found: Sequence[ListEntry], sort: Sort, seen: Place) -> Sequence[ListEntry]:
    key = sort.lstrip("-")
    if sort.startswith("-"):
        upwards = found[::-1]
        return upwards[: bisect_left(upwards, seen, key=lambda item: place(item, key))][::-1]
    return found[bisect_right(found, seen, key=lambda item: place(item, key)) :]


def closed(item: ListEntry, sort: Sort) -> str:
    value, table = place(item, sort.lstrip("-"))
    return base64.urlsafe_b64encode(json.dumps([value, str(table)]).encode()).decode()


def opened(cursor: str) -> Place:
    try:
        value, name = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        return int(value), TableId.parse(name)
    except (ValueError, TypeError, AttributeError, OverflowError, binascii.Error, RecursionError, UnicodeError) as exc:
        raise InvalidOption("The cursor is none of ours.", "Begin with the first page.") from exc
