"""Validates policy and schedule overrides with the rules of the configuration file; each error names its field."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from icepack.api.schemas.policies import PutPolicies
from icepack.api.schemas.schedules import PutSchedules
from icepack.config.policy_block import PolicyEntry, TableEntry
from icepack.domain.actions import Strategy
from icepack.errors import ConfigError, InvalidOption

MAX_ERRORS = 50
Entry = dict[str, Any]
FieldErrors = list[dict[str, str]]
Location = tuple[Any, ...]


class InvalidOverride(ConfigError):
    """Overrides that would also be invalid in icepack.yaml; `errors` has each invalid field with its message."""

    def __init__(self, errors: FieldErrors) -> None:
        first = errors[0]
        super().__init__(f"{first['field']}: {first['message']}.")
        self.errors = errors


def parse_policies(request: PutPolicies, enabled_strategies: Collection[Strategy]) -> list[Entry]:
    """Returns the entries as the configuration has them; raises InvalidOverride."""
    errors: FieldErrors = []
    entries = [{**item.settings, "match": item.match} for item in request.overrides]
    for index, (item, entry) in enumerate(zip(request.overrides, entries, strict=True)):
        if "match" in item.settings:
            errors.append(_error(f"overrides.{index}.settings.match", "is not a policy setting"))
            continue
        parsed = _validate(PolicyEntry, entry, partial(_name_policy_field, index), errors)
        if parsed is not None:
            errors += _check_strategy(f"overrides.{index}.settings.strategy", parsed.strategy, enabled_strategies)
    _raise_if_any(errors)
    return entries


def parse_schedules(request: PutSchedules, enabled_strategies: Collection[Strategy]) -> list[Entry]:
    """Returns the entries as the configuration has them; raises InvalidOverride."""
    errors: FieldErrors = []
    entries = [{"name": item.match, "schedule": item.schedule, "options": item.options} for item in request.overrides]
    for index, entry in enumerate(entries):
        parsed = _validate(TableEntry, entry, partial(_name_schedule_field, index), errors)
        if parsed is not None:
            strategy = parsed.options.strategy
            errors += _check_strategy(f"overrides.{index}.options.strategy", strategy, enabled_strategies)
    _raise_if_any(errors)
    return entries


def _validate(model: Any, entry: Mapping[str, Any], name_field: Callable[[Location], str], errors: FieldErrors) -> Any:
    try:
        return model.model_validate(dict(entry))
    except ValidationError as exc:
        errors += [_error(name_field(error["loc"]), str(error["msg"])) for error in exc.errors()]
    except (InvalidOption, OverflowError, RecursionError) as exc:
        errors.append(_error(name_field(()), str(exc)))
    return None


def _name_policy_field(index: int, location: Location) -> str:
    return _join_field(index, location if location[:1] in ((), ("match",)) else ("settings", *location))


def _name_schedule_field(index: int, location: Location) -> str:
    return _join_field(index, ("match", *location[1:]) if location[:1] == ("name",) else location)


def _join_field(index: int, location: Location) -> str:
    text = ".".join(map(str, ("overrides", index, *location)))
    return text.encode("ascii", "backslashreplace").decode()


def _check_strategy(field: str, strategy: Strategy | None, enabled: Collection[Strategy]) -> FieldErrors:
    if strategy is None or strategy in enabled:
        return []
    return [_error(field, f"the strategy {strategy.value} is disabled in the configuration")]


def _error(field: str, message: str) -> dict[str, str]:
    return {"field": field, "message": message.rstrip(".")}


def _raise_if_any(errors: FieldErrors) -> None:
    if errors:
        raise InvalidOverride(errors[:MAX_ERRORS])
