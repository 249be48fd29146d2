"""The types of settings: sizes, durations, cron expressions, table names, properties."""

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

# Cron expressions and filters are only validated here, and whether they are valid does not depend on the time.
ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)

_SIZE_UNITS = (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024))
_DURATION_UNITS = (("d", timedelta(days=1)), ("h", timedelta(hours=1)), ("m", timedelta(minutes=1)))


def expected_error(expected: str) -> PydanticCustomError:
    """An error that says which kind of value is expected."""
    return PydanticCustomError("expected", "should be {expected}", {"expected": expected})


def invalid_value_error(reason: str) -> PydanticCustomError:
    """An error that gives the reason why a value is invalid."""
    return PydanticCustomError("invalid_value", "is invalid: {reason}", {"reason": reason.rstrip(".")})


class SettingsSection(BaseModel):
    """A block of settings; an empty block means the defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _empty_means_defaults(cls, value: Any) -> Any:
        return {} if value is None else value


def _validator(parse: Callable[[Any], Any], expected: str) -> Callable[[Any], Any]:
    def validate(value: Any) -> Any:
        try:
            return parse(value)
        except (ValueError, TypeError, OverflowError, CronSimError, ZoneInfoNotFoundError, OSError) as exc:
            raise expected_error(expected) from exc

    return validate


def size_text(size_bytes: int) -> str:
    """Formats a size in the largest unit that is exact: `32MB`."""
    for unit, factor in _SIZE_UNITS:
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def duration_text(duration: timedelta) -> str:
    """Formats a duration in the largest unit that is exact: `7d`."""
    for unit, length in _DURATION_UNITS:
        if duration and not duration % length:
            return f"{duration // length}{unit}"
    seconds = duration.total_seconds()
    return f"{seconds:.0f}s" if seconds.is_integer() else f"{seconds * 1000:g}ms"


def _validate_cron(text: str) -> str:
    CronSim(text, ANY_TIME)
    return text


def _validate_pattern(text: str) -> str:
    try:
        TablePattern.parse(text)
    except IcepackError as exc:
        raise expected_error("a table name or glob such as catalog.namespace.table or sales.*") from exc
    return text


def _validate_scope(text: str) -> str:
    try:
        Scope.parse(text)
    except IcepackError as exc:
        raise expected_error("a scope such as catalog.namespace or lake.sales*") from exc
    return text


def _validate_filter(text: str | None) -> str | None:
    try:
        if text is not None:
            parse_filter(text, ANY_TIME)
    except IcepackError as exc:
        raise invalid_value_error(exc.message[:1].lower() + exc.message[1:]) from exc
    return text


def _split_commas(value: Any) -> Any:
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _split_windows(value: Any) -> Any:
    """Splits windows at semicolons, because a window may contain commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    return [str(part) if isinstance(part, Window) else part for part in value] if value else value


def _validate_zone(text: str) -> str:
    ZoneInfo(text)
    return text


def _empty_to_none(value: Any) -> Any:
    return None if value in ("", "auto", "none") else value


def _stringify_properties(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return {} if value is None else value
    return {key: _stringify(item) for key, item in value.items()}


def _stringify(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Size = Annotated[
    int,
    BeforeValidator(_validator(parse_size, "a size such as 32MB or 1GB")),
    PlainSerializer(size_text, when_used="json"),
]
Duration = Annotated[
    timedelta,
    BeforeValidator(_validator(parse_duration, "a duration such as 7d, 12h, 30m or 45s")),
    PlainSerializer(duration_text, when_used="json"),
]
CronLine = Annotated[str, AfterValidator(_validator(_validate_cron, "a cron expression such as 0 */6 * * *"))]
ScopeText = Annotated[str, AfterValidator(_validate_scope)]
PatternText = Annotated[str, AfterValidator(_validate_pattern)]
CommaSeparated = BeforeValidator(_split_commas)
EmptyAsNone = BeforeValidator(_empty_to_none)
FilterText = Annotated[str | None, AfterValidator(_validate_filter), EmptyAsNone]
WindowTexts = Annotated[tuple[str, ...], BeforeValidator(_split_windows)]
ZoneName = Annotated[str, AfterValidator(_validator(_validate_zone, "a time zone such as UTC or Europe/Berlin"))]
Properties = Annotated[dict[str, str], BeforeValidator(_stringify_properties)]
