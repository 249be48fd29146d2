"""How the whole fleet fared, day by day: sums by namespace, so that everybody can be shown their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from icepack.domain.access import namespace_text
from icepack.domain.run import Totals
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLine:
    """All tables of one namespace, as they were last seen on a day."""

    catalog: str
    namespace: str
    tables: int
    score_sum: int
    data_files: int
    delete_files: int
    bytes: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """All tables that may be seen, as they were on a day."""

    day: str
    tables: int
    average_score: float | None
    data_files: int
    delete_files: int
    bytes: int
    records: int


def fleet_lines(figures: Mapping[TableId, Totals]) -> list[FleetLine]:
    groups: dict[tuple[str, str], list[Totals]] = {}
    for table, totals in figures.items():
        groups.setdefault((table.catalog, namespace_text(table)), []).append(totals)
    return [_line(*place, found) for place, found in sorted(groups.items())]


def _line(catalog: str, namespace: str, found: Iterable[Totals]) -> FleetLine:
    totals = list(found)
    return FleetLine(
        catalog=catalog,
        namespace=namespace,
        tables=len(totals),
        score_sum=sum(item.score for item in totals),
        data_files=sum(item.data_files for item in totals),
        delete_files=sum(item.delete_files for item in totals),
        bytes=sum(item.bytes for item in totals),
        records=sum(item.records for item in totals),
    )
