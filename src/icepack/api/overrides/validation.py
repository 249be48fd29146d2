"""What is set through the API, read as the configuration would read it; every mistake names its field."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ValidationError

from icepack.api.schemas.fleet import PutPolicies, PutSchedules
from icepack.config.policy_block import PolicyEntry, TableEntry
from icepack.domain.actions import Strategy
from icepack.errors import ConfigError, InvalidOption

Entry = dict[str, Any]


class BadOverride(ConfigError):
    """Settings that would be a mistake in icepack.yaml too; `mistakes` has each with its field."""

    def __init__(self, mistakes: list[dict[str, str]]) -> None:
        first = mistakes[0]
        super().__init__(f"{first['field']}: {first['message']}.")
        self.mistakes = mistakes


def policy_entries(asked: PutPolicies, strategies: Collection[Strategy]) -> list[Entry]:
    mistakes: list[dict[str, str]] = []
    entries = [{**item.settings, "match": item.match} for item in asked.overrides]
    for number, (item, entry) in enumerate(zip(asked.overrides, entries, strict=True)):
        if "match" in item.settings:
            mistakes.append(_mistake(f"overrides.{number}.settings.match", "is no policy setting"))
            continue
        found = _checked(PolicyEntry, entry, lambda loc, n=number: _policy_field(n, loc), mistakes)
        if found is not None and _is_off(found.strategy, strategies):
            mistakes.append(_off(f"overrides.{number}.settings.strategy", found.strategy))
    _raise(mistakes)
    return entries


def schedule_entries(asked: PutSchedules, strategies: Collection[Strategy]) -> list[Entry]:
    mistakes: list[dict[str, str]] = []
    entries = [{"name": item.match, "schedule": item.schedule, "options": item.options} for item in asked.overrides]
    for number, entry in enumerate(entries):
        found = _checked(TableEntry, entry, lambda loc, n=number: _schedule_field(n, loc), mistakes)
        if found is not None and _is_off(found.options.strategy, strategies):
            mistakes.append(_off(f"overrides.{number}.options.strategy", found.options.strategy))
    _raise(mistakes)
    return entries


def _checked(shape: Any, entry: Mapping[str, Any], field: Any, mistakes: list[dict[str, str]]) -> Any:
    try:
        return shape.model_validate(dict(entry))
    except ValidationError as exc:
        mistakes += [_mistake(field(error["loc"]), str(error["msg"])) for error in exc.errors()]
    except (InvalidOption, OverflowError, RecursionError) as exc:
        mistakes.append(_mistake(field(()), str(exc)))
    return None


def _policy_field(number: int, loc: tuple[Any, ...]) -> str:
    return _joined(number, loc if loc[:1] in ((), ("match",)) else ("settings", *loc))


def _schedule_field(number: int, loc: tuple[Any, ...]) -> str:
    return _joined(number, ("match", *loc[1:]) if loc[:1] == ("name",) else loc)


def _joined(number: int, loc: tuple[Any, ...]) -> str:
    text = ".".join(map(str, ("overrides", number, *loc)))
    return text.encode("ascii", "backslashreplace").decode()


def _is_off(strategy: Strategy | None, on: Collection[Strategy]) -> bool:
    return strategy is not None and strategy not in on


def _off(field: str, strategy: Strategy) -> dict[str, str]:
    return _mistake(field, f"asks for {strategy.value}, which is off")


def _mistake(field: str, message: str) -> dict[str, str]:
    return {"field": field, "message": message.rstrip(".")}


def _raise(mistakes: list[dict[str, str]]) -> None:
    if mistakes:
        raise BadOverride(mistakes[:50])
