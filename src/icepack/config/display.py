"""Renders the merged configuration with its secrets masked, and collects those secrets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any
from urllib.parse import unquote, urlsplit

from icepack.config.domain_settings import build_base_policy, build_catalog_properties
from icepack.config.policy_block import PolicyBlock
from icepack.config.secrets import MASK, is_secret, mask_secrets
from icepack.config.settings import CompactionConfig


def mask_config(config: CompactionConfig) -> dict[str, Any]:
    """Returns the effective settings as JSON with every secret masked; `catalogs` and `policy` include defaults."""
    settings = config.model_dump(mode="json", exclude={"catalog", "catalogs", "policy"})
    base = build_base_policy(config)
    policy = PolicyBlock.model_validate({field.name: getattr(base, field.name) for field in fields(base)})
    merged = {"catalogs": build_catalog_properties(config), **settings, "policy": policy.model_dump(mode="json")}
    return {key: _mask(value, key, config.secrets) for key, value in merged.items()}


def collect_secrets(config: CompactionConfig) -> frozenset[str]:
    """Returns every secret in the configuration, so that logs and errors can mask it."""
    tree = {"catalogs": build_catalog_properties(config), **config.model_dump(mode="json", exclude={"catalogs"})}
    return config.secrets | frozenset(_find_secrets(tree, "")) | frozenset(_url_passwords(config.state.url))


def _find_secrets(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _find_secrets(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _find_secrets(item, key)
    elif isinstance(value, str) and value and is_secret(key):
        yield value


def _url_passwords(url: Any) -> Iterator[str]:
    """Yields the password of a URL, percent-encoded and decoded."""
    try:
        password = urlsplit(str(url or "")).password
    except ValueError:
        return
    if password:
        yield from (password, unquote(password))


def _mask(value: Any, key: str, secrets: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {name: _mask(item, name, secrets) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask(item, key, secrets) for item in value]
    if value and is_secret(key):
        return MASK
    return mask_secrets(value, secrets) if isinstance(value, str) else value
