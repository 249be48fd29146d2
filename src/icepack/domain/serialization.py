"""Converts the domain's frozen dataclasses to JSON and back."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")

# Building a TypeAdapter is slow, so each is built once per type.
_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(kind: Any) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


def to_json(value: Any) -> Any:
    """Returns plain JSON values: times and durations as ISO 8601, enums by value."""
    return _adapter(type(value)).dump_python(value, mode="json")


def to_json_text(value: Any) -> str:
    return _adapter(type(value)).dump_json(value).decode()


def from_json(kind: type[T], value: Any) -> T:
    result: T = _adapter(kind).validate_python(value)
    return result


def from_json_text(kind: type[T], text: str | bytes) -> T:
    result: T = _adapter(kind).validate_json(text)
    return result
