"""Generates docs/reference/json.md: the output of `--format json`, from its dataclasses."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from generator import type_names
from generator.markdown import anchor, code, codes, section, table
from generator.markdown import page as markdown_page
from generator.words import field_words, first_paragraph, known, words
from icepack.doctor import Check
from icepack.domain.health import HealthReport
from icepack.domain.job import Job, JobEvent
from icepack.domain.plan.compaction import CompactionPlan
from icepack.domain.policy import Policy
from icepack.domain.ports.catalog import ExpiryPreview
from icepack.domain.ports.history import PruneResult
from icepack.domain.ports.locks import TableLock
from icepack.domain.recommendation import Recommendation
from icepack.domain.run import RunRecord, Totals
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled

ROOTS = (TableId, TableStatus, HealthReport, Totals, Policy, Recommendation, CompactionPlan, ExpiryPreview)
ROOTS_OF_RUNS = (RunRecord, Job, JobEvent, TableLock, NativeDisabled, PruneResult, Check)


@cache
def shapes() -> dict[str, type[Any]]:
    """Every dataclass that can occur in the JSON, by name, in the order in which they are found."""
    found: dict[str, type[Any]] = {}
    for root in (*ROOTS, *ROOTS_OF_RUNS):
        _collect(root, found)
    return {name: kind for name, kind in found.items() if dataclasses.is_dataclass(kind)}


@cache
def enums() -> dict[str, type[StrEnum]]:
    found: dict[str, type[Any]] = {}
    for root in (*ROOTS, *ROOTS_OF_RUNS):
        _collect(root, found)
    return {name: kind for name, kind in found.items() if issubclass(kind, StrEnum)}


def _collect(kind: Any, found: dict[str, type[Any]]) -> None:
    for inner in _parts(kind):
        if inner.__name__ not in found:
            found[inner.__name__] = inner
            if dataclasses.is_dataclass(inner):
                for annotation in hints(inner).values():
                    _collect(annotation, found)


def _parts(annotation: Any) -> Iterator[type[Any]]:
    if dataclasses.is_dataclass(annotation) or (isinstance(annotation, type) and issubclass(annotation, StrEnum)):
        yield annotation  # type: ignore[misc]
    elif get_origin(annotation) is not None:
        for part in get_args(annotation):
            yield from _parts(part)


@cache
def hints(shape: type[Any]) -> dict[str, Any]:
    """The serialised fields with their types."""
    resolved = get_type_hints(shape, include_extras=True)
    return {field.name: resolved[field.name] for field in dataclasses.fields(shape)}


def page() -> str:
    return markdown_page(
        "JSON",
        words("pages", "json"),
        section("Output of each command", words("pages", "envelopes"), *(_envelope(name) for name in envelopes())),
        section("Record types", *(_shape(shape) for shape in shapes().values())),
        section("Enumerations", *(_enum(kind) for kind in enums().values())),
    )


def envelopes() -> dict[str, dict[str, list[str]]]:
    """For each command, the path of each key with its type and description."""
    found: dict[str, dict[str, list[str]]] = words("envelopes")
    return found


def _envelope(command: str) -> str:
    rows = [(code(path), linked(kind), said) for path, (kind, said) in envelopes()[command].items()]
    return section(code(command), table(("key", "type", "description"), rows), level=3)


def linked(kind: str) -> str:
    """The type, with record types as links."""
    known_names = shapes().keys() | enums().keys()
    return re.sub(
        r"\b[A-Z]\w+\b",
        lambda found: f"[{found[0]}]({anchor(found[0])})" if found[0] in known_names else found[0],
        kind,
    )


def _shape(shape: type[Any]) -> str:
    rows = [(code(name), type_names.json_type(kind), field_words(shape, name)) for name, kind in hints(shape).items()]
    about = first_paragraph(shape) or known("shapes", shape.__name__) or ""
    return section(shape.__name__, about, table(("key", "type", "description"), rows), level=3)


def _enum(kind: type[StrEnum]) -> str:
    return section(kind.__name__, first_paragraph(kind), codes(kind), level=3)


def paths(value: Any, command: str, path: str = "") -> set[str]:
    """The keys of a command's JSON down to record types, which have their own sections."""
    if path and _has_own_section(envelopes()[command].get(path, [""])[0]):
        return {path}
    found = {path} if path else set()
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict):
            step = f"{path}[]." if isinstance(value, list) else f"{path}." if path else ""
            found = found.union(*(paths(inner, command, f"{step}{key}") for key, inner in item.items()))
    return found


def _has_own_section(kind: str) -> bool:
    return kind.startswith("object") or any(name in shapes() for name in re.findall(r"\b[A-Z]\w+\b", kind))
