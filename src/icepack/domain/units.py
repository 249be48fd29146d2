"""Parses and formats sizes and durations such as `32MB`, `1GB`, `7d` and `12h`."""

from __future__ import annotations

import math
import re
from datetime import timedelta

KIB, MIB, GIB = 1024, 1024**2, 1024**3

# The longest duration, a thousand years: subtracting it from a present-day date does not overflow.
FOREVER = timedelta(days=365_000)

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
    """Returns bytes; units are powers of 1024, as in Iceberg and Spark."""
    number, unit = _split(text, "a size such as 32MB or 1GB")
    factor = _SIZE_UNITS.get(unit.lower() or "b")
    if factor is None:
        raise ValueError(f"'{text}' is not a size; use a form such as 32MB or 1GB")
    if not math.isfinite(number * factor):
        raise ValueError(f"'{text}' is too large for a size")
    return int(number * factor)


def parse_duration(text: str | int | timedelta) -> timedelta:
    """Returns a duration; a bare number is rejected, because its unit would be ambiguous."""
    if isinstance(text, timedelta):
        return text
    number, unit = _split(text, "a duration such as 7d or 12h")
    factor = _DURATION_UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"'{text}' is not a duration; use a form such as 7d, 12h, 30m or 45s")
    if number * factor > FOREVER.total_seconds():
        raise ValueError(f"'{text}' is longer than a thousand years")
    return timedelta(seconds=number * factor)


def from_milliseconds(milliseconds: int) -> timedelta:
    """Converts an Iceberg property value; the largest long, which means forever, is capped at FOREVER."""
    longest = FOREVER // timedelta(milliseconds=1)
    return timedelta(milliseconds=max(-longest, min(milliseconds, longest)))


def _split(text: str | int, expected: str) -> tuple[float, str]:
    found = _NUMBER_AND_UNIT.fullmatch(str(text))
    if found is None:
        raise ValueError(f"'{text}' is not {expected}")
    return float(found[1]), found[2]


def format_size(size_bytes: float) -> str:
    """Formats a size in the smallest unit that keeps the number below 1024, such as `4.2 MB`."""
    for unit in ("B", "KB", "MB", "GB"):
        shown = round(size_bytes) if unit == "B" else round(size_bytes, 1)
        if abs(shown) < 1024:
            return f"{shown} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} TB"


def format_count(count: int, noun: str, plural: str = "") -> str:
    """Formats a count with its noun, such as `1 file` or `1,200 files`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def format_duration(span: timedelta | float) -> str:
    """Formats a duration in its two largest units, such as `3d 4h`, `2m 5s` or `0.4s`."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if seconds < 10:
        return f"{seconds:.1f}s"
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(int(seconds), size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
