"""Base models and field types that all request and response schemas share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator
from pydantic_core import PydanticCustomError

from icepack.domain.units import parse_duration, parse_size

MAX_TEXT_LENGTH = 2000
MAX_SIZE_BYTES = 2**50
# PostgreSQL stores neither NUL characters nor unpaired surrogates.
_UNSTORABLE_CHARACTERS = re.compile("[\x00\ud800-\udfff]")


class ResponseModel(BaseModel):
    """Base of all response bodies."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class RequestModel(BaseModel):
    """Base of all request bodies: rejects unknown keys and text that the database cannot store."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _reject_unstorable_text(cls, value: Any) -> Any:
        _check_text(value)
        return value


def _check_text(value: Any) -> None:
    if isinstance(value, str) and _UNSTORABLE_CHARACTERS.search(value):
        raise PydanticCustomError("unstorable", "must not contain NUL characters or unpaired surrogates")
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)


def _check_size(text: str) -> str:
    try:
        size = parse_size(text)
    except (ValueError, OverflowError) as exc:
        raise PydanticCustomError("size", "should be a size such as 512MB or 1GB") from exc
    if not 0 < size <= MAX_SIZE_BYTES:
        raise PydanticCustomError("size", "should be a size between 1B and 1024TB")
    return text


def _check_duration(text: str) -> str:
    try:
        parse_duration(text)
    except (ValueError, OverflowError) as exc:
        raise PydanticCustomError("duration", "should be a duration such as 7d, 12h, 30m or 45s") from exc
    return text


Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
Name = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_LENGTH)]
SizeText = Annotated[str, Field(max_length=50, examples=["512MB"]), AfterValidator(_check_size)]
DurationText = Annotated[str, Field(max_length=50, examples=["7d"]), AfterValidator(_check_duration)]
JsonObject = dict[str, JsonValue]
