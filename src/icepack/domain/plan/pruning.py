"""Partition pruning: finds the partitions that may contain rows matching a filter, by their partition values.

If the values of a partition do not decide whether it matches, it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, assert_never

from icepack.domain.plan.expression import And, Comparison, Expression, IsNull, Membership, Not, Operator, Or
from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.status import PartitionStatus

# Three-valued logic: None means that the partition values do not decide.
MatchResult = bool | None

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Times and timestamps as they are written in partition values.
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(\.(?P<fraction>\d+))?(\+00:00)?")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The smallest and the largest value that rows of a partition may have, both included."""

    first: Any
    last: Any


def find_matching_partitions(partitions: Iterable[PartitionStatus], where: Expression) -> frozenset[PartitionKey]:
    """Returns the keys of the partitions that may contain a row matching the filter."""
    return frozenset(partition.key for partition in partitions if _evaluate(where, partition.values) is not False)


def _evaluate(where: Expression, values: tuple[PartitionValue, ...]) -> MatchResult:
    match where:
        case And(left, right):
            return _and(_evaluate(left, values), _evaluate(right, values))
        case Or(left, right):
            return _not(_and(_not(_evaluate(left, values)), _not(_evaluate(right, values))))
        case Not(operand):
            return _not(_evaluate(operand, values))
        case IsNull(column):
            return _is_null(column, values)
        case Membership(column, options):
            results = [_compare(column, Operator.EQ, option, values) for option in options]
            return True if True in results else None if None in results else False
        case Comparison(column, operator, value):
            return _compare(column, operator, value, values)
        case _:
            assert_never(where)


def _and(left: MatchResult, right: MatchResult) -> MatchResult:
    if left is False or right is False:
        return False
    return True if left and right else None


def _not(result: MatchResult) -> MatchResult:
    return None if result is None else not result


def _is_null(column: str, values: tuple[PartitionValue, ...]) -> MatchResult:
    found = [value.value is None for value in values if value.source == column and value.transform == "identity"]
    return found[0] if found else None


def _compare(column: str, operator: Operator, literal: Any, values: tuple[PartitionValue, ...]) -> MatchResult:
    """A column may be the source of several partition fields; the first definite result counts."""
    results = [_compare_bounds(_to_bounds(value), operator, literal) for value in values if value.source == column]
    return next((result for result in results if result is not None), None)


def _to_bounds(value: PartitionValue) -> _Bounds | None:
    if value.value is None:
        return None
    if value.transform == "identity":
        return _Bounds(value.value, value.value)
    begin, end = _to_period(value.transform, value.value)
    return None if begin is None or end is None else _Bounds(begin, end - timedelta(microseconds=1))


def _to_period(transform: str, value: Any) -> tuple[datetime | None, datetime | None]:
    try:
        match transform, value:
            case "year", int():
                return datetime(1970 + value, 1, 1, tzinfo=UTC), datetime(1971 + value, 1, 1, tzinfo=UTC)
            case "month", int():
                return _month_start(value), _month_start(value + 1)
            case "day", int():
                return _EPOCH + timedelta(days=value), _EPOCH + timedelta(days=value + 1)
            case "day", str():
                begin = datetime.combine(date.fromisoformat(value), time(), UTC)
                return begin, begin + timedelta(days=1)
            case "hour", int():
                return _EPOCH + timedelta(hours=value), _EPOCH + timedelta(hours=value + 1)
    except (ValueError, OverflowError):
        return None, None
    return None, None


def _month_start(months: int) -> datetime:
    year, month = divmod(months, 12)
    return datetime(1970 + year, month + 1, 1, tzinfo=UTC)


def _compare_bounds(bounds: _Bounds | None, operator: Operator, literal: Any) -> MatchResult:
    if bounds is None:
        return None
    comparable = _to_comparable(bounds, literal)
    if comparable is None:
        return None
    first, last, value = comparable
    match operator:
        case Operator.EQ:
            return False if value < first or value > last else True if first == last else None
        case Operator.NE:
            return _not(_compare_bounds(bounds, Operator.EQ, literal))
        case Operator.LT:
            return True if last < value else False if first >= value else None
        case Operator.LE:
            return True if last <= value else False if first > value else None
        case Operator.GT:
            return _not(_compare_bounds(bounds, Operator.LE, literal))
        case Operator.GE:
            return _not(_compare_bounds(bounds, Operator.LT, literal))
        case Operator.STARTS_WITH:
            return first.startswith(value) if isinstance(first, str) and first == last else None
        case _:
            assert_never(operator)


def _to_comparable(bounds: _Bounds, literal: Any) -> tuple[Any, Any, Any] | None:
    """Converts the bounds and the literal to comparable values; None if they are not comparable."""
    if isinstance(bounds.first, datetime) or isinstance(literal, date):
        times = [_to_datetime(value) for value in (bounds.first, bounds.last, literal)]
        return None if None in times else (times[0], times[1], times[2])
    if isinstance(bounds.first, bool) or isinstance(literal, bool):
        return (
            (bounds.first, bounds.last, literal)
            if isinstance(bounds.first, bool) is isinstance(literal, bool)
            else None
        )
    if isinstance(bounds.first, int | float) and isinstance(literal, int | float):
        return bounds.first, bounds.last, literal
    if not isinstance(bounds.first, str) or not isinstance(literal, str) or _TIME.fullmatch(bounds.first):
        # A time can be written in several ways, so its text cannot be compared.
        return None
    return bounds.first, bounds.last, literal


def _to_datetime(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if not isinstance(value, str) or _is_finer_than_microseconds(value):
        return None
    try:
        return _to_datetime(datetime.fromisoformat(value))
    except ValueError:
        return None


def _is_finer_than_microseconds(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and len(found["fraction"] or "") > 6
