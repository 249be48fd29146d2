"""Converts filter expressions and partitions of the domain into Iceberg's Java expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, assert_never

from icepack.domain.actions import PartitionSelection
from icepack.domain.plan.expression import And, Comparison, Expression, IsNull, Membership, Not, Operator, Or, coerce
from icepack.domain.plan.files import PartitionValue
from icepack.errors import InvalidFilter

_PARAMETRIZED_TRANSFORM = re.compile(r"(bucket|truncate)\[(\d+)\]")
_METHODS = {
    Operator.EQ: "equal",
    Operator.NE: "notEqual",
    Operator.LT: "lessThan",
    Operator.LE: "lessThanOrEqual",
    Operator.GT: "greaterThan",
    Operator.GE: "greaterThanOrEqual",
    Operator.STARTS_WITH: "startsWith",
}


class JavaExpressions:
    """Builds `org.apache.iceberg.expressions` objects for one Java schema."""

    def __init__(self, jvm: Any, schema: Any) -> None:
        self._java = jvm.org.apache.iceberg.expressions.Expressions
        self._schema = schema

    def filter(self, expression: Expression) -> Any:
        match expression:
            case And(left, right):
                return self._combine("and", self.filter(left), self.filter(right))
            case Or(left, right):
                return self._combine("or", self.filter(left), self.filter(right))
            case Not(operand):
                return getattr(self._java, "not")(self.filter(operand))
            case IsNull(column):
                self._column_type(column)
                return self._java.isNull(column)
            case Membership(column, values):
                equals = [self._compare(column, Operator.EQ, value) for value in values]
                return self._any_of(equals)
            case Comparison(column, operator, value):
                return self._compare(column, operator, value)
            case _:
                assert_never(expression)

    def partitions(self, selections: Sequence[PartitionSelection]) -> Any | None:
        """Selects these partitions; returns None, which means all, if none of them can be selected by a filter.

        A partition without values (of an older, unpartitioned spec) cannot be selected: Iceberg includes its files
        regardless of the filter.
        """
        selectable = [selection for selection in selections if selection.values]
        return self._any_of([self._partition(selection) for selection in selectable]) if selectable else None

    def and_optional(self, left: Any | None, right: Any | None) -> Any | None:
        if left is None or right is None:
            return left if right is None else right
        return self._combine("and", left, right)

    def _compare(self, column: str, operator: Operator, value: Any) -> Any:
        return getattr(self._java, _METHODS[operator])(column, coerce(value, self._column_type(column)))

    def _partition(self, selection: PartitionSelection) -> Any:
        fields = [self._field(value) for value in selection.values]
        result = fields[0]
        for field in fields[1:]:
            result = self._combine("and", result, field)
        return result

    def _field(self, field: PartitionValue) -> Any:
        term = self._term(field)
        if field.value is None:
            return self._java.isNull(term)
        return self._java.equal(term, field.value)

    def _term(self, field: PartitionValue) -> Any:
        parametrized = _PARAMETRIZED_TRANSFORM.fullmatch(field.transform)
        if parametrized is not None:
            return getattr(self._java, parametrized[1])(field.source, int(parametrized[2]))
        if field.transform == "identity":
            return self._java.ref(field.source)
        return getattr(self._java, field.transform)(field.source)

    def _combine(self, method: str, left: Any, right: Any) -> Any:
        return getattr(self._java, method)(left, right)

    def _any_of(self, terms: list[Any]) -> Any:
        """Builds a balanced tree, because a chain of thousands of partitions would overflow Java's stack."""
        while len(terms) > 1:
            pairs = [self._combine("or", *terms[start : start + 2]) for start in range(0, len(terms) - 1, 2)]
            terms = pairs + (terms[-1:] if len(terms) % 2 else [])
        return terms[0]

    def _column_type(self, column: str) -> str:
        field = self._schema.findField(column)
        if field is None:
            raise InvalidFilter(f"The filter uses the column '{column}', which the table does not have.")
        return str(field.type().toString())
