"""Names of the types of settings and of JSON fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from generator.markdown import anchor, codes
from icepack.config import types as setting_types

_PLAIN: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    UUID: "UUID",
    datetime: "time",
    timedelta: "duration",
    Any: "anything",
}

_SETTING_TYPES = {
    "size": setting_types.Size,
    "duration": setting_types.Duration,
    "cron expression": setting_types.CronLine,
    "table name or glob": setting_types.PatternText,
    "properties": setting_types.Properties,
    "list of [windows](../scheduling.md#windows)": setting_types.WindowTexts,
    "time zone": setting_types.ZoneName,
    "[partition filter](policy.md#partition-filters)": setting_types.FilterText,
}


def setting(annotation: Any, metadata: Sequence[Any]) -> str:
    """The type of a setting, with its bounds."""
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata = [*more, *metadata]
    named = next((name for name, kind in _SETTING_TYPES.items() if kind.__metadata__[0] in metadata), None)
    return ", ".join([named or _setting_kind(annotation), *_bounds(metadata)])


def _setting_kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return " or ".join(setting(kind, ()) for kind in arguments if kind is not NoneType)
    if origin is Literal:
        return codes(arguments)
    if origin in (tuple, list):
        return f"list of {setting(arguments[0], ())}"
    if origin is dict:
        return f"block of {setting(arguments[1], ())}"
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return codes(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "block"
    return _PLAIN[annotation]


def _bounds(metadata: Sequence[Any]) -> list[str]:
    found = []
    for item in metadata:
        match item:
            case Ge(ge):
                found.append(f"at least {ge}")
            case Gt(gt):
                found.append(f"more than {gt}")
            case Le(le):
                found.append(f"at most {le}")
            case FieldInfo():
                found.extend(_bounds(item.metadata))
    return found


def json_type(annotation: Any) -> str:
    """The type of a JSON field, with links to the record types and enumerations it contains."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return json_type(arguments[0])
    if origin is Literal:
        return codes(str(value) for value in arguments)
    if origin in (Union, UnionType):
        return _either(arguments)
    if origin is tuple:
        return f"list of {json_type(arguments[0])}" if arguments[-1] is Ellipsis else "list"
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return f"object of {json_type(arguments[1])}"
    if dataclasses.is_dataclass(annotation) or (isinstance(annotation, type) and issubclass(annotation, StrEnum)):
        return f"[{annotation.__name__}]({anchor(annotation.__name__)})"
    return _PLAIN[annotation]


def _either(arguments: tuple[Any, ...]) -> str:
    kinds = [json_type(kind) for kind in arguments if kind is not NoneType]
    return " or ".join([*kinds, "null"] if NoneType in arguments else kinds)
