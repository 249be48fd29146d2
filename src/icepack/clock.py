"""The current time. The domain does not read it: it takes the time as an argument."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)
