"""The merged configuration for people's eyes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from urllib.parse import unquote, urlsplit

from icepack.config.derive import base_policy, catalog_properties
from icepack.config.policy_block import PolicyBlock
from icepack.config.secrets import MASK, hide, is_secret
from icepack.config.settings import CompactionConfig


def masked(config: CompactionConfig) -> dict[str, Any]:
    """What holds, as JSON, with every secret masked; `catalogs` and `policy` are complete."""
    shown = config.model_dump(mode="json", exclude={"catalog", "catalogs", "policy"})
    base = base_policy(config)
    policy = PolicyBlock.model_validate({field.name: getattr(base, field.name) for field in fields(base)})
    merged = {"catalogs": catalog_properties(config), **shown, "policy": policy.model_dump(mode="json")}
    return {key: _masked(value, key, config.secrets) for key, value in merged.items()}


def known_secrets(config: CompactionConfig) -> frozenset[str]:
    """Every secret that the configuration holds, to be hidden wherever it shows up."""
    tree = {"catalogs": catalog_properties(config), **config.model_dump(mode="json", exclude={"catalogs"})}
    return config.secrets | frozenset(_secrets(tree, "")) | frozenset(_password(config.state.url))


def _secrets(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _secrets(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, key)
    elif isinstance(value, str) and value and is_secret(key):
        yield value


def _password(url: Any) -> Iterator[str]:
    """As it is written in the URL, and as it is meant."""
    try:
        found = urlsplit(str(url or "")).password
    except ValueError:
        return
    if found:
        yield from (found, unquote(found))


def _masked(value: Any, key: str, secrets: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _masked(item, name, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_masked(item, key, secrets) for item in value]
    if value and is_secret(key):
        return MASK
    return hide(value, secrets) if isinstance(value, str) else value
