"""Parses partition filters into expressions, so that user input never becomes SQL text.

expression := term (OR term)*        term := factor (AND factor)*
factor     := NOT factor | '(' expression ')' | column predicate
predicate  := (= | == | != | <> | < | <= | > | >=) value
            | [NOT] IN '(' value (, value)* ')' | [NOT] BETWEEN value AND value
            | IS [NOT] NULL | [NOT] LIKE 'prefix%'
value      := 'text' | number | TRUE | FALSE | DATE 'text' | TIMESTAMP 'text'
            | CURRENT_DATE | CURRENT_TIMESTAMP, each with any number of (+|-) n [UNIT] | (+|-) INTERVAL n UNIT
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from icepack.errors import InvalidFilter

Literal: TypeAlias = str | int | float | bool | date | datetime


class Operator(StrEnum):
    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    STARTS_WITH = "starts_with"


@dataclass(frozen=True, slots=True)
class Comparison:
    column: str
    operator: Operator
    value: Literal


@dataclass(frozen=True, slots=True)
class Membership:
    column: str
    values: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


@dataclass(frozen=True, slots=True)
class And:
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Or:
    left: Expression
    right: Expression


Expression: TypeAlias = Comparison | Membership | IsNull | Not | And | Or

_TOKEN = re.compile(
    r"\s*(?:(?P<text>'(?:[^']|'')*')"
    r"|(?P<number>-?\d+(?:\.\d+)?)"
    r"|(?P<quoted>`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\")"
    r"|(?P<word>[^\W\d][\w.]*)"
    r"|(?P<operator>==|!=|<>|<=|>=|=|<|>|\(|\)|,|\+|-))"
)
_COMPARISONS = {
    "=": Operator.EQ, "==": Operator.EQ, "!=": Operator.NE, "<>": Operator.NE,
    "<": Operator.LT, "<=": Operator.LE, ">": Operator.GT, ">=": Operator.GE,
}  # fmt: skip
_UNITS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1, "week": 604800}
MAX_DIGITS = 100
# Limits the depth of the expression, which is processed recursively; long lists of values belong in IN.
MAX_CONDITIONS = 100
_KEYWORDS = frozenset({"and", "or", "not", "in", "between", "is", "null", "like"})


_NANOSECOND_DIGITS = re.compile(r"\.\d{6}(\d{1,3})(?!\d)")


def parse_filter(text: str, now: datetime) -> Expression:
    """Parses a filter; CURRENT_DATE and CURRENT_TIMESTAMP are evaluated at `now`, in UTC."""
    return _Parser(text, now.astimezone(UTC)).parse()


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


class _Parser:
    def __init__(self, text: str, now: datetime) -> None:
        self._text = text
        self._now = now
        self._tokens = self._tokenize()
        self._next = 0
        self._conditions = 0

    def parse(self) -> Expression:
        expression = self._expression()
        if self._peek().kind != "end":
            raise self._error("the end of the filter, AND or OR")
        return expression

    def _tokenize(self) -> list[_Token]:
        tokens = []
        position = 0
        text = self._text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise InvalidFilter(f'In the filter "{self._text}", unexpected text at character {position + 1}.')
            kind = str(found.lastgroup)
            tokens.append(_Token(kind, found[kind], found.start(kind)))
            position = found.end()
        return [*tokens, _Token("end", "", len(text))]

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next += 1
        return token

    def _accept(self, word: str) -> bool:
        token = self._peek()
        if token.is_word(word) or (token.kind == "operator" and token.text == word):
            self._next += 1
            return True
        return False

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(word.upper())

    def _error(self, expected: str) -> InvalidFilter:
        token = self._peek()
        found = f"'{token.text}'" if token.text else "nothing"
        return InvalidFilter(
            f'In the filter "{self._text}", expected {expected} at character {token.position + 1} but found {found}.',
            "Examples: date = '2024-01-01'; date >= current_date - 7.",
        )

    def _expression(self) -> Expression:
        left = self._term()
        while self._accept("or"):
            left = Or(left, self._term())
        return left

    def _term(self) -> Expression:
        left = self._factor()
        while self._accept("and"):
            left = And(left, self._factor())
        return left

    def _factor(self) -> Expression:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise self._error(f"no more than {MAX_CONDITIONS} conditions (IN takes any number of values)")
        if self._accept("not"):
            return Not(self._factor())
        if self._accept("("):
            inner = self._expression()
            self._expect(")")
            return inner
        return self._predicate(self._column())

    def _column(self) -> str:
        token = self._peek()
        if token.kind == "quoted":
            self._take()
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        if token.kind == "word" and token.text.lower() not in _KEYWORDS:
            return self._take().text
        raise self._error("a column name")

    def _predicate(self, column: str) -> Expression:
        token = self._peek()
        if token.kind == "operator" and token.text in _COMPARISONS:
            self._take()
            return Comparison(column, _COMPARISONS[token.text], self._value())
        if self._accept("is"):
            negated = self._accept("not")
            self._expect("null")
            return Not(IsNull(column)) if negated else IsNull(column)
        negated = self._accept("not")
        positive = self._word_predicate(column)
        return Not(positive) if negated else positive

    def _word_predicate(self, column: str) -> Expression:
        if self._accept("in"):
            return Membership(column, self._value_list())
        if self._accept("between"):
            low = self._value()
            self._expect("and")
            return And(Comparison(column, Operator.GE, low), Comparison(column, Operator.LE, self._value()))
        if self._accept("like"):
            return self._like(column)
        raise self._error("a comparison, IN, BETWEEN, LIKE or IS NULL")

    def _value_list(self) -> tuple[Literal, ...]:
        self._expect("(")
        values = [self._value()]
        while self._accept(","):
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _like(self, column: str) -> Expression:
        pattern = self._value()
        if not isinstance(pattern, str) or "_" in pattern or "%" in pattern[:-1] or not pattern.endswith("%"):
            self._next -= 1
            raise self._error("a prefix such as 'abc%' (LIKE supports only prefixes)")
        return Comparison(column, Operator.STARTS_WITH, pattern[:-1])

    def _value(self) -> Literal:
        token = self._peek()
        if token.kind == "text":
            return _unquote(self._take().text)
        if token.kind == "number":
            return self._number()
        word = token.text.lower() if token.kind == "word" else ""
        if word in ("true", "false"):
            self._take()
            return word == "true"
        if word in ("date", "timestamp"):
            return self._typed_literal(word)
        if word in ("current_date", "current_timestamp"):
            return self._current_time(word)
        raise self._error("a value")

    def _number(self) -> int | float:
        text = self._peek().text
        if len(text) > MAX_DIGITS:
            raise self._error(f"a number of at most {MAX_DIGITS} digits")
        self._take()
        return float(text) if "." in text else int(text)

    def _typed_literal(self, word: str) -> Literal:
        self._take()
        if self._peek().kind != "text":
            raise self._error(f"a quoted {word}")
        text = _unquote(self._peek().text)
        try:
            value: Literal = date.fromisoformat(text) if word == "date" else _to_utc(datetime.fromisoformat(text))
        except (ValueError, OverflowError):
            raise self._error(f"a {word} in ISO form") from None
        self._take()
        return value

    def _current_time(self, word: str) -> Literal:
        self._take()
        if self._accept("("):
            self._expect(")")
        try:
            seconds = self._offset_seconds()
            moment = self._now + timedelta(seconds=seconds)
        except OverflowError:
            raise self._error("a date between the years 1 and 9999") from None
        if word == "current_timestamp":
            return moment
        if seconds % _UNITS["day"]:
            raise self._error("whole days, because CURRENT_DATE has no time of day,")
        return moment.date()

    def _offset_seconds(self) -> int:
        total = 0
        while True:
            token = self._peek()
            if token.kind == "number" and token.text.startswith("-"):
                total -= self._offset_amount(token.text[1:], is_interval=False)
            elif token.kind == "operator" and token.text in "+-":
                sign = -1 if self._take().text == "-" else 1
                is_interval = self._accept("interval")
                token = self._peek()
                amount = _unquote(token.text).strip() if token.kind == "text" else token.text
                total += sign * self._offset_amount(amount, is_interval=is_interval)
            else:
                return total

    def _offset_amount(self, amount: str, *, is_interval: bool) -> int:
        """Returns the seconds of a count and its unit; without a unit, the count is in days."""
        if self._peek().kind not in ("number", "text") or not amount.isdecimal() or len(amount) > MAX_DIGITS:
            raise self._error("a whole number" if is_interval else "a whole number of days")
        self._take()
        name = self._peek().text.lower().removesuffix("s")
        if name in _UNITS:
            self._take()
        elif is_interval:
            raise self._error("a unit: day, hour, minute, second or week")
        return int(amount) * _UNITS.get(name, _UNITS["day"])


def _unquote(text: str) -> str:
    return text[1:-1].replace("''", "'")


def _to_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def coerce(value: Literal, column_type: str) -> str | int | float | bool:
    """Converts the literal to the form in which values of this Iceberg type are compared."""
    if isinstance(value, datetime):
        return _format_datetime(value, column_type)
    if isinstance(value, date):
        return f"{value.isoformat()}{_midnight_suffix(column_type)}"
    if isinstance(value, str) and column_type.startswith("timestamp"):
        return _format_timestamp(value, column_type)
    if isinstance(value, int) and not isinstance(value, bool) and column_type == "string":
        return str(value)
    return value


def _format_timestamp(text: str, column_type: str) -> str:
    """Returns text that is not a timestamp unchanged, so that the comparison reports the error."""
    try:
        exact = _format_datetime(datetime.fromisoformat(text), column_type)
    except (ValueError, OverflowError):
        return text
    finer = _NANOSECOND_DIGITS.search(text) if column_type.endswith("_ns") else None
    return exact if finer is None else _append_nanoseconds(exact, finer[1])


def _append_nanoseconds(text: str, finer: str) -> str:
    """Appends the nanosecond digits, which Python's datetime does not have."""
    head, zone = (text[:-6], text[-6:]) if text.endswith("+00:00") else (text, "")
    seconds, _, micros = head.partition(".")
    return f"{seconds}.{micros or '000000'}{finer}{zone}"


def _format_datetime(moment: datetime, column_type: str) -> str:
    utc = _to_utc(moment)
    if column_type == "date":
        return utc.date().isoformat()
    text = utc.replace(tzinfo=None).isoformat()
    return f"{text}+00:00" if column_type.startswith("timestamptz") else text


def _midnight_suffix(column_type: str) -> str:
    if column_type.startswith("timestamptz"):
        return "T00:00:00+00:00"
    return "T00:00:00" if column_type.startswith("timestamp") else ""
