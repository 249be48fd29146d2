"""Column types and literals that SQLite and PostgreSQL share."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import BigInteger, ColumnElement, DateTime, Dialect, Integer, Text, TypeDecorator, literal_column


class UtcDateTime(TypeDecorator[datetime]):
    """Takes and returns timezone-aware UTC times, whatever the database stores."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone.")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, _: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


# SQLite assigns row numbers by itself only if the column type is exactly INTEGER.
BigNumber = BigInteger().with_variant(Integer(), "sqlite")


def text_literal(text: str) -> ColumnElement[str]:
    """Text written into the statement instead of bound: the planner matches a partial index only to a literal."""
    return literal_column(f"'{text}'", Text)


def integer_literal(number: int) -> ColumnElement[int]:
    """An integer written into the statement: with a bound LIMIT, a prepared plan expects many rows and sorts them."""
    return literal_column(str(int(number)), Integer)


LIMIT_ONE = integer_literal(1)
