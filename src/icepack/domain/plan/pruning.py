"""Which partitions a filter may mean, judged by the values that were observed of them.

It errs on the side of keeping: what cannot be told from a partition's values stays in.
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

Answer = bool | None
"""None is `perhaps`."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT)?\d\d:\d\d:\d\d(\.(?P<fraction>\d+))?(\+00:00)?")
"""Times and timestamps as partitions name them."""


@dataclass(frozen=True, slots=True)
class _Span:
    """Everything from the first to the last value, both included."""

    first: Any
    last: Any


def may_match(partitions: Iterable[PartitionStatus], where: Expression) -> frozenset[PartitionKey]:
    """The partitions in which there may be a row that the filter means."""
    return frozenset(partition.key for partition in partitions if _judge(where, partition.values) is not False)


def _judge(where: Expression, values: tuple[PartitionValue, ...]) -> Answer:
    match where:
        case And(left, right):
            return _both(_judge(left, values), _judge(right, values))
        case Or(left, right):
            return _negated(_both(_negated(_judge(left, values)), _negated(_judge(right, values))))
        case Not(operand):
            return _negated(_judge(operand, values))
        case IsNull(column):
            return _is_null(column, values)
        case Membership(column, options):
            answers = [_compare(column, Operator.EQ, option, values) for option in options]
            return True if True in answers else None if None in answers else False
        case Comparison(column, operator, value):
            return _compare(column, operator, value, values)
        case _:
            assert_never(where)


def _both(left: Answer, right: Answer) -> Answer:
    if left is False or right is False:
        return False
    return True if left and right else None


def _negated(answer: Answer) -> Answer:
    return None if answer is None else not answer


def _is_null(column: str, values: tuple[PartitionValue, ...]) -> Answer:
    found = [value.value is None for value in values if value.source == column and value.transform == "identity"]
    return found[0] if found else None


def _compare(column: str, operator: Operator, literal: Any, values: tuple[PartitionValue, ...]) -> Answer:
    """A column may be partitioned by more than once; any certain answer counts."""
    answers = [_within(_span(value), operator, literal) for value in values if value.source == column]
    return next((answer for answer in answers if answer is not None), None)


def _span(value: PartitionValue) -> _Span | None:
    if value.value is None:
        return None
    if value.transform == "identity":
        return _Span(value.value, value.value)
    begin, end = _period(value.transform, value.value)
    return None if begin is None or end is None else _Span(begin, end - timedelta(microseconds=1))


def _period(transform: str, value: Any) -> tuple[datetime | None, datetime | None]:
    try:
        match transform, value:
            case "year", int():
                return datetime(1970 + value, 1, 1, tzinfo=UTC), datetime(1971 + value, 1, 1, tzinfo=UTC)
            case "month", int():
                return _month(value), _month(value + 1)
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


def _month(months: int) -> datetime:
    year, month = divmod(months, 12)
    return datetime(1970 + year, month + 1, 1, tzinfo=UTC)


def _within(span: _Span | None, operator: Operator, literal: Any) -> Answer:
    if span is None:
        return None
    pair = _alike(span, literal)
    if pair is None:
        return None
    first, last, value = pair
    match operator:
        case Operator.EQ:
            return False if value < first or value > last else True if first == last else None
        case Operator.NE:
            return _negated(_within(span, Operator.EQ, literal))
        case Operator.LT:
            return True if last < value else False if first >= value else None
        case Operator.LE:
            return True if last <= value else False if first > value else None
        case Operator.GT:
            return _negated(_within(span, Operator.LE, literal))
        case Operator.GE:
            return _negated(_within(span, Operator.LT, literal))
        case Operator.STARTS_WITH:
            return first.startswith(value) if isinstance(first, str) and first == last else None
        case _:
            assert_never(operator)


def _alike(span: _Span, literal: Any) -> tuple[Any, Any, Any] | None:
    """The three values in one comparable form; None where there is none."""
    if isinstance(span.first, datetime) or isinstance(literal, date):
        moments = [_moment(value) for value in (span.first, span.last, literal)]
        return None if None in moments else (moments[0], moments[1], moments[2])
    if isinstance(span.first, bool) or isinstance(literal, bool):
        return (span.first, span.last, literal) if isinstance(span.first, bool) is isinstance(literal, bool) else None
    if isinstance(span.first, int | float) and isinstance(literal, int | float):
        return span.first, span.last, literal
    if not isinstance(span.first, str) or not isinstance(literal, str) or _TIME.fullmatch(span.first):
        # A time can be written in several ways, so that its text proves nothing.
        return None
    return span.first, span.last, literal


def _moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if not isinstance(value, str) or _is_finer_than_microseconds(value):
        return None
    try:
        return _moment(datetime.fromisoformat(value))
    except ValueError:
        return None


def _is_finer_than_microseconds(text: str) -> bool:
    found = _TIME.fullmatch(text)
    return found is not None and len(found["fraction"] or "") > 6
