"""The domain's expressions and partitions as Iceberg's Java expressions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, assert_never

from icepack.domain.actions import PartitionSelection
from icepack.domain.plan.expression import And, Comparison, Expression, IsNull, Membership, Not, Operator, Or, coerce
from icepack.domain.plan.files import PartitionValue
from icepack.errors import InvalidFilter

_WIDTH = re.compile(r"(bucket|truncate)\[(\d+)\]")
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
                return self._both("and", self.filter(left), self.filter(right))
            case Or(left, right):
                return self._both("or", self.filter(left), self.filter(right))
            case Not(operand):
                return getattr(self._java, "not")(self.filter(operand))
            case IsNull(column):
                self._type(column)
                return self._java.isNull(column)
            case Membership(column, values):
                equals = [self._compare(column, Operator.EQ, value) for value in values]
                return self._any(equals)
            case Comparison(column, operator, value):
                return self._compare(column, operator, value)
            case _:
                assert_never(expression)

    def partitions(self, selections: Sequence[PartitionSelection]) -> Any | None:
        """These partitions; None, which is all of them, when not one can be named.

        A partition without values (an older, unpartitioned spec) cannot be: Iceberg looks at such files
        whatever the filter says.
        """
        named = [selection for selection in selections if selection.values]
        return self._any([self._partition(selection) for selection in named]) if named else None

    def both(self, left: Any | None, right: Any | None) -> Any | None:
        if left is None or right is None:
            return left if right is None else right
        return self._both("and", left, right)

    def _compare(self, column: str, operator: Operator, value: Any) -> Any:
        return getattr(self._java, _METHODS[operator])(column, coerce(value, self._type(column)))

    def _partition(self, selection: PartitionSelection) -> Any:
        fields = [self._field(value) for value in selection.values]
        result = fields[0]
        for field in fields[1:]:
            result = self._both("and", result, field)
        return result

    def _field(self, field: PartitionValue) -> Any:
        term = self._term(field)
        if field.value is None:
            return self._java.isNull(term)
        return self._java.equal(term, field.value)

    def _term(self, field: PartitionValue) -> Any:
        sized = _WIDTH.fullmatch(field.transform)
        if sized is not None:
            return getattr(self._java, sized[1])(field.source, int(sized[2]))
        if field.transform == "identity":
            return self._java.ref(field.source)
        return getattr(self._java, field.transform)(field.source)

    def _both(self, method: str, left: Any, right: Any) -> Any:
        return getattr(self._java, method)(left, right)

    def _any(self, terms: list[Any]) -> Any:
        """A balanced tree: thousands of partitions must not become a chain that overflows the stack."""
        while len(terms) > 1:
            pairs = [self._both("or", *terms[at : at + 2]) for at in range(0, len(terms) - 1, 2)]
            terms = pairs + (terms[-1:] if len(terms) % 2 else [])
        return terms[0]

    def _type(self, column: str) -> str:
        field = self._schema.findField(column)
        if field is None:
            raise InvalidFilter(f"The filter names a column '{column}' that the table does not have.")
        return str(field.type().toString())
