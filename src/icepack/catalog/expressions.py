"""Converts filter expressions of the domain into PyIceberg expressions, using the table's column types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, assert_never

from icepack.domain.plan.expression import (
    And,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Membership,
    Not,
    Operator,
    Or,
    coerce,
)
from icepack.errors import InvalidFilter

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


def to_pyiceberg(expression: Expression, schema: Schema) -> Any:
    """Returns an unbound `BooleanExpression`; raises InvalidFilter for an unknown column."""
    pe = _expressions()
    match expression:
        case And(left, right):
            return pe.And(to_pyiceberg(left, schema), to_pyiceberg(right, schema))
        case Or(left, right):
            return pe.Or(to_pyiceberg(left, schema), to_pyiceberg(right, schema))
        case Not(operand):
            return pe.Not(to_pyiceberg(operand, schema))
        case IsNull(column):
            _column_type(schema, column)
            return pe.IsNull(column)
        case Membership(column, values):
            kind = _column_type(schema, column)
            return pe.In(column, {_literal(value, kind) for value in values})
        case Comparison(column, operator, value):
            predicate = getattr(pe, _PREDICATES[operator])
            return predicate(column, _literal(value, _column_type(schema, column)))
        case _:
            assert_never(expression)


def _literal(value: Literal, column_type: str) -> Any:
    coerced = coerce(value, column_type)
    if column_type.endswith("_ns") and isinstance(coerced, str):
        return _nanosecond_literal(coerced, column_type)
    return coerced


def _nanosecond_literal(text: str, column_type: str) -> Any:
    """Replaces the literals of PyIceberg, none of which can be compared with a nanosecond column."""
    from pyiceberg.expressions.literals import LongLiteral
    from pyiceberg.utils.datetime import timestamp_to_nanos, timestamptz_to_nanos

    class NanosecondLiteral(LongLiteral):
        def to(self, _: Any) -> Any:
            return self

    to_nanos = timestamptz_to_nanos if column_type.startswith("timestamptz") else timestamp_to_nanos
    return NanosecondLiteral(to_nanos(text))


@contextmanager
def wrap_literal_errors() -> Iterator[None]:
    """Converts PyIceberg's errors about a literal that does not match its column's type into InvalidFilter."""
    try:
        yield
    except (TypeError, ValueError) as exc:
        raise InvalidFilter(f"A value in the filter does not match the type of its column: {exc}.") from exc


def _expressions() -> Any:
    """Returned as Any because the predicates accept a column name, but their annotations allow only bound terms."""
    from pyiceberg import expressions

    return expressions


_PREDICATES = {
    Operator.EQ: "EqualTo",
    Operator.NE: "NotEqualTo",
    Operator.LT: "LessThan",
    Operator.LE: "LessThanOrEqual",
    Operator.GT: "GreaterThan",
    Operator.GE: "GreaterThanOrEqual",
    Operator.STARTS_WITH: "StartsWith",
}


def _column_type(schema: Schema, column: str) -> str:
    try:
        return str(schema.find_field(column).field_type)
    except ValueError:
        raise InvalidFilter(
            f"The filter uses the column '{column}', which the table does not have.",
            f"Columns: {', '.join(schema.column_names[:20])}.",
        ) from None
