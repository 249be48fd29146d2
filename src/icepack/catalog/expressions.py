"""The domain's expressions as PyIceberg's, bound to a table's own column types."""

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
    """A `BooleanExpression`, unbound; an unknown column is refused by name."""
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
    plain = coerce(value, column_type)
    return _nanoseconds(plain, column_type) if column_type.endswith("_ns") and isinstance(plain, str) else plain


def _nanoseconds(text: str, column_type: str) -> Any:
    """PyIceberg has no literal of its own that fits a column of nanoseconds."""
    from pyiceberg.expressions.literals import LongLiteral
    from pyiceberg.utils.datetime import timestamp_to_nanos, timestamptz_to_nanos

    class Nanoseconds(LongLiteral):
        def to(self, _: Any) -> Any:
            return self

    return Nanoseconds((timestamptz_to_nanos if column_type.startswith("timestamptz") else timestamp_to_nanos)(text))


@contextmanager
def misfits() -> Iterator[None]:
    """Turns what PyIceberg says of a literal that does not fit its column into InvalidFilter."""
    try:
        yield
    except (TypeError, ValueError) as exc:
        raise InvalidFilter(f"A value of the filter does not fit its column: {exc}.") from exc


def _expressions() -> Any:
    """Untyped on purpose: the predicates take a column's name, their annotations only know bound terms."""
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
            f"The filter names a column '{column}' that the table does not have.",
            f"It has: {', '.join(schema.column_names[:20])}.",
        ) from None
