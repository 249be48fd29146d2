"""Daily totals of the fleet by namespace, so that users see only the namespaces they have access to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from icepack.domain.access import format_namespace
from icepack.domain.run import Totals
from icepack.domain.table import TableId


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceTotals:
    """The totals of all tables of one namespace, as last observed on a day."""

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
    """The totals of all visible tables on a day."""

    day: str
    tables: int
    average_score: float | None
    data_files: int
    delete_files: int
    bytes: int
    records: int


def sum_by_namespace(totals_by_table: Mapping[TableId, Totals]) -> list[NamespaceTotals]:
    groups: dict[tuple[str, str], list[Totals]] = {}
    for table, totals in totals_by_table.items():
        groups.setdefault((table.catalog, format_namespace(table)), []).append(totals)
    return [_sum_totals(*key, items) for key, items in sorted(groups.items())]


def _sum_totals(catalog: str, namespace: str, totals: Sequence[Totals]) -> NamespaceTotals:
    return NamespaceTotals(
        catalog=catalog,
        namespace=namespace,
        tables=len(totals),
        score_sum=sum(item.score for item in totals),
        data_files=sum(item.data_files for item in totals),
        delete_files=sum(item.delete_files for item in totals),
        bytes=sum(item.bytes for item in totals),
        records=sum(item.records for item in totals),
    )
