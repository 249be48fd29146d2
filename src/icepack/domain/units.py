"""Sizes and durations as people write them: `32MB`, `1GB`, `7d`, `12h`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

KIB, MIB, GIB = 1024, 1024**2, 1024**3

FOREVER = timedelta(days=365_000)
"""A thousand years: the longest span, so that it can still be taken from any date of today."""

_SIZE_UNITS = {
    "b": 1,
    "kb": KIB,
    "mb": MIB,
    "gb": GIB,
    "tb": 1024**4,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": 1024**4,
}
_DURATION_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_NUMBER_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def parse_size(text: str | int) -> int:
    """Bytes; units are powers of 1024, as in Iceberg and Spark."""
    number, unit = _split(text, "a size such as 32MB or 1GB")
    factor = _SIZE_UNITS.get(unit.lower() or "b")
    if factor is None:
        raise ValueError(f"'{text}' is not a size; write it as 32MB or 1GB")
    if not math.isfinite(number * factor):
        raise ValueError(f"'{text}' is more than any storage holds")
    return int(number * factor)


def parse_duration(text: str | int | timedelta) -> timedelta:
    """A span of time; a bare number is refused, because its unit is anyone's guess."""
    if isinstance(text, timedelta):
        return text
    number, unit = _split(text, "a duration such as 7d or 12h")
    factor = _DURATION_UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"'{text}' is not a duration; write it as 7d, 12h, 30m or 45s")
    if number * factor > FOREVER.total_seconds():
        raise ValueError(f"'{text}' is longer than a thousand years")
    return timedelta(seconds=number * factor)


def from_milliseconds(milliseconds: int) -> timedelta:
    """A span as Iceberg's properties write it, where the largest long stands for ever."""
    longest = FOREVER // timedelta(milliseconds=1)
    return timedelta(milliseconds=max(-longest, min(milliseconds, longest)))


def _split(text: str | int, expected: str) -> tuple[float, str]:
    found = _NUMBER_AND_UNIT.fullmatch(str(text))
    if found is None:
        raise ValueError(f"'{text}' is not {expected}")
    return float(found[1]), found[2]


def format_size(size_bytes: float) -> str:
    """The shortest unit that keeps the number below 1024: `4.2 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        shown = round(size_bytes) if unit == "B" else round(size_bytes, 1)
        if abs(shown) < 1024:
            return f"{shown} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TB"


def format_duration(span: timedelta | float) -> str:
    """The two largest units: `3d 4h`, `2m 5s`, `0.4s`."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 10:
        return f"{seconds:.1f}s"
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(int(seconds), size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
