from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from domain.factories import NOW
from icepack.domain.plan.expression import (
    MAX_CONDITIONS,
    And,
    Comparison,
    IsNull,
    Membership,
    Not,
    Operator,
    Or,
    coerce,
    parse_filter,
)
from icepack.errors import InvalidFilter

A = Comparison("a", Operator.EQ, 1)
B = Comparison("b", Operator.EQ, 2)
C = Comparison("c", Operator.EQ, 3)


def parse(text):
    return parse_filter(text, NOW)


def value_of(text):
    return parse(f"x = {text}").value


@pytest.mark.parametrize(
    ("symbol", "operator"),
    [
        ("=", Operator.EQ),
        ("==", Operator.EQ),
        ("!=", Operator.NE),
        ("<>", Operator.NE),
        ("<", Operator.LT),
        ("<=", Operator.LE),
        (">", Operator.GT),
        (">=", Operator.GE),
    ],
)
def test_every_comparison_is_read_with_and_without_spaces(symbol, operator):
    assert parse(f"x {symbol} 5") == parse(f"x{symbol}5") == Comparison("x", operator, 5)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'2024-01-01'", "2024-01-01"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        ("'; DROP TABLE x --'", "; DROP TABLE x --"),
        ("42", 42),
        ("-42", -42),
        ("4.5", 4.5),
        ("true", True),
        ("FALSE", False),
        ("DATE '2024-02-29'", date(2024, 2, 29)),
        ("timestamp '2024-02-29 10:30:00'", datetime(2024, 2, 29, 10, 30, tzinfo=UTC)),
        ("timestamp '2024-02-29T10:30:00+02:00'", datetime(2024, 2, 29, 8, 30, tzinfo=UTC)),
    ],
)
def test_every_kind_of_value_is_read(text, value):
    found = value_of(text)
    assert found == value
    assert type(found) is type(value)


def test_a_timestamp_is_always_in_utc():
    assert value_of("timestamp '2024-02-29'").utcoffset() == timedelta()


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("day = 1", "day"),
        ("`and` = 1", "and"),
        ('"a b" = 1', "a b"),
        ("`tick``ed` = 1", "tick`ed"),
        ('"say ""hi""" = 1', 'say "hi"'),
        ("nested.field = 1", "nested.field"),
        ("größe = 1", "größe"),
        ("date = 1", "date"),
        ("current_date = 1", "current_date"),
    ],
)
def test_columns_may_be_plain_quoted_nested_or_named_like_a_type(text, column):
    assert parse(text).column == column


def test_and_binds_tighter_than_or():
    assert parse("a = 1 or b = 2 and c = 3") == Or(A, And(B, C))


def test_chains_associate_to_the_left():
    assert parse("a = 1 and b = 2 and c = 3") == And(And(A, B), C)
    assert parse("a = 1 or b = 2 or c = 3") == Or(Or(A, B), C)


def test_parentheses_and_not_group_as_written():
    assert parse("(a = 1 OR b = 2) AND NOT c = 3") == And(Or(A, B), Not(C))
    assert parse("not (not a = 1)") == Not(Not(A))


def test_in_takes_one_or_more_values():
    assert parse("x in (1)") == Membership("x", (1,))
    assert parse("x NOT IN ('a', 'b')") == Not(Membership("x", ("a", "b")))


def test_between_includes_both_ends_and_leaves_the_next_and_alone():
    low, high = Comparison("x", Operator.GE, 1), Comparison("x", Operator.LE, 5)
    assert parse("x between 1 and 5") == And(low, high)
    assert parse("x not between 1 and 5 and a = 1") == And(Not(And(low, high)), A)


def test_is_null_and_is_not_null():
    assert parse("x is null") == IsNull("x")
    assert parse("x IS NOT NULL") == Not(IsNull("x"))


def test_like_takes_prefixes():
    assert parse("x like 'ab%'") == Comparison("x", Operator.STARTS_WITH, "ab")
    assert parse("x not like '%'") == Not(Comparison("x", Operator.STARTS_WITH, ""))


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("current_date", date(2024, 6, 15)),
        ("CURRENT_DATE()", date(2024, 6, 15)),
        ("current_date - 7", date(2024, 6, 8)),
        ("current_date -7", date(2024, 6, 8)),
        ("current_date-7", date(2024, 6, 8)),
        ("current_date - 7 days", date(2024, 6, 8)),
        ("current_date -7 days", date(2024, 6, 8)),
        ("current_date + 1 - 2", date(2024, 6, 14)),
        ("current_date - interval 2 weeks", date(2024, 6, 1)),
        ("current_date - INTERVAL '7' DAY", date(2024, 6, 8)),
        ("current_date - interval 24 hours", date(2024, 6, 14)),
    ],
)
def test_current_date_is_counted_in_days(text, day):
    assert value_of(text) == day


@pytest.mark.parametrize(
    ("text", "shift"),
    [
        ("current_timestamp", timedelta()),
        ("current_timestamp() - interval 90 minutes", timedelta(minutes=-90)),
        ("current_timestamp - 1 hour", timedelta(hours=-1)),
        ("current_timestamp -1 hour", timedelta(hours=-1)),
        ("current_timestamp + interval 30 seconds", timedelta(seconds=30)),
        ("current_timestamp - 2", timedelta(days=-2)),
    ],
)
def test_current_timestamp_is_counted_in_any_unit(text, shift):
    assert value_of(text) == NOW + shift


def test_today_is_the_day_in_utc_wherever_the_clock_stands():
    evening_in_new_york = datetime(2024, 6, 14, 21, 0, tzinfo=timezone(timedelta(hours=-4)))
    assert parse_filter("d = current_date", evening_in_new_york).value == date(2024, 6, 15)
    morning_in_tokyo = datetime(2024, 6, 15, 8, 0, tzinfo=timezone(timedelta(hours=9)))
    assert parse_filter("d = current_date", morning_in_tokyo).value == date(2024, 6, 14)


def test_the_filters_of_the_documents_are_read():
    assert parse("date = '2024-01-01'") == Comparison("date", Operator.EQ, "2024-01-01")
    assert parse("date >= current_date - 7") == Comparison("date", Operator.GE, date(2024, 6, 8))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "a column name at character 1 but found nothing"),
        ("   ", "a column name"),
        ("= 5", "a column name at character 1 but found '='"),
        ("and = 5", "a column name"),
        ("x", "a comparison, IN, BETWEEN, LIKE or IS NULL"),
        ("x not 5", "a comparison, IN, BETWEEN, LIKE or IS NULL"),
        ("x = ", "a value at character 4"),
        ("x = null", "a value"),
        ("x = y", "a value"),
        ('x = "2024"', "a value"),
        ("x = 2024-01-01", "the end of the filter, AND or OR"),
        ("x = 1 y = 2", "the end of the filter, AND or OR at character 7 but found 'y'"),
        ("(x = 1", ") at character 7"),
        ("x in 1", "( at character 6"),
        ("x in ()", "a value"),
        ("x in (1", ") at character 8"),
        ("x in (1,)", "a value"),
        ("x between 1 or 2", "AND at character 13"),
        ("x is 5", "NULL"),
        ("x like 5", "a prefix such as 'abc%'"),
        ("x like 'a_c%'", "a prefix"),
        ("x like 'abc'", "a prefix"),
        ("x like '%c%'", "a prefix"),
        ("x like ''", "a prefix"),
        ("x = 'open", "unexpected text at character 4"),
        ("x = 1; drop", "unexpected text at character 6"),
        ("x = $1", "unexpected text"),
        ("x = date 5", "a quoted date"),
        ("x = date '2024-13-01'", "a date in ISO form"),
        ("x = timestamp 'noon'", "a timestamp in ISO form"),
        ("x = timestamp '0001-01-01T00:00:00+05:00'", "a timestamp in ISO form"),
        ("x = current_date(", ") at character 18"),
        ("x = current_date - ", "a whole number of days"),
        ("x = current_date - y", "a whole number of days"),
        ("x = current_date - 1.5", "a whole number of days"),
        ("x = current_date -1.5", "a whole number of days"),
        ("x = current_date - -5", "a whole number of days"),
        ("x = current_date - interval", "a whole number"),
        ("x = current_date - interval '²' day", "a whole number"),
        ("x = current_date - interval 5", "a unit: day, hour, minute, second or week"),
        ("x = current_date - interval 5 years", "a unit"),
        ("x = current_date - interval 1 hour", "whole days"),
        ("x = current_date - 99999999", "a date between the years 1 and 9999"),
        ("x = current_date + " + "9" * 50, "a date between the years 1 and 9999"),
        ("x = " + "9" * 5000, "a number of at most 100 digits"),
        ("x = current_date - " + "9" * 5000, "a whole number of days"),
    ],
)
def test_every_error_says_what_was_expected_and_where(text, expected):
    with pytest.raises(InvalidFilter) as refused:
        parse(text)
    assert expected in str(refused.value)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "text",
    ["(" * 5000 + "x = 1" + ")" * 5000, "not " * 5000 + "x = 1", " and ".join(["x = 1"] * 5000)],
    ids=["parentheses", "nots", "conditions"],
)
def test_a_filter_that_is_too_deep_is_refused(text):
    with pytest.raises(InvalidFilter, match=f"no more than {MAX_CONDITIONS} conditions"):
        parse(text)


def test_as_many_conditions_as_allowed_and_any_number_of_values_are_read():
    assert parse(" or ".join(["x = 1"] * MAX_CONDITIONS))
    assert len(parse(f"x in ({', '.join(map(str, range(5000)))})").values) == 5000


TOKENS = [
    *["x", "and", "or", "not", "in", "between", "is", "null", "like", "(", ")", ",", "+", "-", "=", "<", ">="],
    *["'a%'", "'it''s'", "5", "-7", "1.5", "'²'", "true", "`q`", "99999999999"],
    *["date", "timestamp", "'2024-01-01'", "current_date", "current_timestamp", "interval", "days", "hour"],
]
words = st.sampled_from(TOKENS)


@given(st.one_of(st.text(max_size=60), st.lists(words, max_size=12).map(" ".join)))
@example("x = current_date - interval '²' day")
@example("x = current_date " + "- 99999999 " * 3)
def test_any_text_is_an_expression_or_an_invalid_filter(text):
    try:
        assert parse(text) is not None
    except InvalidFilter as refused:
        assert text in str(refused)


literals = st.one_of(st.text(), st.integers(-(10**9), 10**9), st.booleans(), st.dates())


def written(value):
    match value:
        case bool():
            return str(value).upper()
        case int():
            return str(value)
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return "'" + value.replace("'", "''") + "'"


@given(st.text(min_size=1), st.lists(literals, min_size=1, max_size=5))
def test_quoted_columns_and_values_come_back_as_they_were(column, values):
    quoted = "`" + column.replace("`", "``") + "`"
    text = f"{quoted} in ({', '.join(map(written, values))})"
    assert parse(text) == Membership(column, tuple(values))


@pytest.mark.parametrize(
    ("value", "column_type", "expected"),
    [
        (date(2024, 1, 2), "date", "2024-01-02"),
        (date(2024, 1, 2), "string", "2024-01-02"),
        (date(2024, 1, 2), "timestamp", "2024-01-02T00:00:00"),
        (date(2024, 1, 2), "timestamptz", "2024-01-02T00:00:00+00:00"),
        (NOW, "timestamptz", "2024-06-15T12:00:00+00:00"),
        (NOW, "timestamptz_ns", "2024-06-15T12:00:00+00:00"),
        (NOW, "timestamp", "2024-06-15T12:00:00"),
        (NOW, "date", "2024-06-15"),
        (datetime(2024, 1, 2, 3), "timestamptz", "2024-01-02T03:00:00+00:00"),
        (datetime(2024, 1, 2, 1, tzinfo=timezone(timedelta(hours=2))), "date", "2024-01-01"),
        ("2024-01-02", "timestamp", "2024-01-02T00:00:00"),
        ("2024-01-02", "timestamptz", "2024-01-02T00:00:00+00:00"),
        ("2024-01-02 10:30:00", "timestamptz", "2024-01-02T10:30:00+00:00"),
        ("2024-01-02T10:30:00+02:00", "timestamptz", "2024-01-02T08:30:00+00:00"),
        ("ten chars!", "timestamp", "ten chars!"),
        ("2024-01-02 10:30:00", "string", "2024-01-02 10:30:00"),
        ("2024-01-02", "date", "2024-01-02"),
        (20240102, "string", "20240102"),
        (20240102, "int", 20240102),
        (True, "string", True),
        (1.5, "double", 1.5),
    ],
)
def test_a_literal_takes_the_form_its_column_compares_with(value, column_type, expected):
    assert coerce(value, column_type) == expected
