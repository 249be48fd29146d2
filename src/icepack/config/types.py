"""The types of settings: sizes, durations, cron lines, names, properties; each says what it expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from icepack.domain.access import Scope
from icepack.domain.plan.expression import parse_filter
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TablePattern
from icepack.domain.units import parse_duration, parse_size
from icepack.errors import IcepackError

ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
"""Cron lines and filters are only checked here; nothing depends on the moment."""

_SIZE_UNITS = (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024))
_DURATION_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def expects(what: str) -> PydanticCustomError:
    """A mistake that is mended by giving `what`."""
    return PydanticCustomError("expected", "should be {expected}", {"expected": what})


def does_not_fit(why: str) -> PydanticCustomError:
    """A mistake that is explained by a clause of its own."""
    return PydanticCustomError("does_not_fit", "does not fit: {why}", {"why": why.rstrip(".")})


class Section(BaseModel):
    """A block of settings; an empty one is the same as none."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return {} if value is None else value


def _parsed(parse: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, OverflowError, CronSimError, ZoneInfoNotFoundError, OSError) as exc:
            raise expects(what) from exc

    return read


def size_text(size_bytes: int) -> str:
    """The size in the largest unit that is exact: `32MB`."""
    for unit, factor in _SIZE_UNITS:
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def duration_text(span: timedelta) -> str:
    """The duration in the largest unit that is exact: `7d`."""
    for unit, length in _DURATION_UNITS:
        if span and not span % length:
            return f"{span // length}{unit}"
    seconds = span.total_seconds()
    return f"{seconds:.0f}s" if seconds.is_integer() else f"{seconds * 1000:g}ms"


def _cron_line(text: str) -> str:
    CronSim(text, ANY_TIME)
    return text


def _pattern(text: str) -> str:
    try:
        TablePattern.parse(text)
    except IcepackError as exc:
        raise expects("a table name or glob such as catalog.namespace.table or sales.*") from exc
    return text


def _scope(text: str) -> str:
    try:
        Scope.parse(text)
    except IcepackError as exc:
        raise expects("a scope such as catalog.namespace or lake.sales*") from exc
    return text


def _filter(text: str | None) -> str | None:
    try:
        if text is not None:
            parse_filter(text, ANY_TIME)
    except IcepackError as exc:
        raise does_not_fit(exc.message[:1].lower() + exc.message[1:]) from exc
    return text


def _listed(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _separated(value: Any) -> Any:
    """A window may have commas in it, so semicolons stand between windows."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    return [str(part) if isinstance(part, Window) else part for part in value] if value else value


def _zone(text: str) -> str:
    ZoneInfo(text)
    return text


def _nullable(value: Any) -> Any:
    return None if value in ("", "auto", "none") else value


def _properties(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {} if value is None else value
    return {key: _property(item) for key, item in value.items()}


def _property(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Size = Annotated[
    int,
    BeforeValidator(_parsed(parse_size, "a size such as 32MB or 1GB")),
    PlainSerializer(size_text, when_used="json"),
]
Duration = Annotated[
    timedelta,
    BeforeValidator(_parsed(parse_duration, "a duration such as 7d, 12h, 30m or 45s")),
    PlainSerializer(duration_text, when_used="json"),
]
CronLine = Annotated[str, AfterValidator(_parsed(_cron_line, "a cron line such as 0 */6 * * *"))]
ScopeText = Annotated[str, AfterValidator(_scope)]
PatternText = Annotated[str, AfterValidator(_pattern)]
FilterText = Annotated[str | None, AfterValidator(_filter), BeforeValidator(_nullable)]
WindowTexts = Annotated[tuple[str, ...], BeforeValidator(_separated)]
ZoneName = Annotated[str, AfterValidator(_parsed(_zone, "a time zone such as UTC or Europe/Berlin"))]
Listed = BeforeValidator(_listed)
Nullable = BeforeValidator(_nullable)
Properties = Annotated[dict[str, str], BeforeValidator(_properties)]
