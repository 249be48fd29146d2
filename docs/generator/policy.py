"""Generates docs/reference/policy.md: every policy key with its type, default and table property."""

from __future__ import annotations

from generator import type_names
from generator.configuration import default
from generator.markdown import code, section, table
from generator.markdown import page as markdown_page
from generator.words import words
from icepack.config.policy_block import PolicyBlock
from icepack.domain.policy import _ICEBERG_PROPERTIES, POLICY_KEYS, PROPERTY_PREFIX


def page() -> str:
    keys = table(("key", "type", "default", "description"), [_row(key) for key in POLICY_KEYS])
    iceberg = table(
        ("table property", "policy key"), [(code(key), code(name)) for key, (name, _) in _ICEBERG_PROPERTIES.items()]
    )
    return markdown_page(
        "Policy",
        words("pages", "policy"),
        section("Keys", keys),
        section("Table properties", words("pages", "properties").format(prefix=PROPERTY_PREFIX), iceberg),
        section("Partition filters", words("pages", "filters")),
    )


def _row(key: str) -> tuple[str, str, str, str]:
    field = PolicyBlock.model_fields[key]
    return (
        code(key),
        type_names.setting(field.annotation, field.metadata),
        default(PolicyBlock, key),
        words("policy", key),
    )
