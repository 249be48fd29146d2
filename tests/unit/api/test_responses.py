"""JSON encoding of responses."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from icepack.api.responses import encode_json
from icepack.api.schemas.examples.records import JOB, RECOMMENDATION, STATUS
from icepack.api.schemas.probes import ComponentStatus
from icepack.domain.job import JobState
from icepack.domain.serialization import to_json

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize("record", [STATUS, RECOMMENDATION, JOB])
def test_dataclasses_are_encoded_like_the_json_of_the_command_line(record: Any) -> None:
    assert json.loads(encode_json(record)) == to_json(record)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NOON, '"2026-01-15T12:00:00Z"'),
        (NOON + timedelta(microseconds=5), '"2026-01-15T12:00:00.000005Z"'),
        (NOON.astimezone(timezone(timedelta(hours=2))), '"2026-01-15T14:00:00+02:00"'),
        (date(2026, 1, 15), '"2026-01-15"'),
        (timedelta(minutes=4), '"PT4M"'),
        (UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (float("nan"), "null"),
        ({JobState.QUEUED: 1}, '{"queued":1}'),
        (frozenset({1}), "[1]"),
        ("día", '"día"'),
        (ComponentStatus(name="a", status="ok", detail=""), '{"name":"a","status":"ok","detail":""}'),
    ],
)
def test_values_are_encoded_compactly(value: Any, expected: str) -> None:
    assert encode_json(value).decode() == expected


@pytest.mark.parametrize("value", ["half \ud800 a pair", 2**70])
def test_values_that_orjson_rejects_are_encoded_by_json(value: Any) -> None:
    assert json.loads(encode_json({"at": NOON, "value": value})) == {"at": "2026-01-15T12:00:00Z", "value": value}


def test_unknown_types_are_rejected() -> None:
    with pytest.raises(TypeError, match="cannot encode object"):
        encode_json({"value": object()})
