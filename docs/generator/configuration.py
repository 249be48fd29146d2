"""Generates docs/reference/configuration.md: every key of icepack.yaml, from the types of the settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from generator import type_names
from generator.markdown import code, section, table
from generator.markdown import page as markdown_page
from generator.words import first_paragraph, known, words
from icepack.config.policy_block import PolicyBlock
from icepack.config.secrets import is_secret
from icepack.config.settings import CompactionConfig

# A setting's full key, the class of its block, and its name in that block.
Setting = tuple[str, type[BaseModel], str]


def settings(model: type[BaseModel] = CompactionConfig, prefix: str = "") -> Iterator[Setting]:
    """Every setting except those of the policy, which are on another page."""
    for name, field in model.model_fields.items():
        block = _block(field)
        if issubclass(model, PolicyBlock) and name in PolicyBlock.model_fields:
            continue
        if block is None or block is PolicyBlock:
            yield f"{prefix}{name}", model, name
        else:
            listed = "" if block is field.annotation else "[]"
            yield from settings(block, f"{prefix}{name}{listed}.")


def _block(field: FieldInfo) -> type[BaseModel] | None:
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def page() -> str:
    return markdown_page("Configuration", words("pages", "configuration"), *_sections(), words("pages", "catalogs"))


def _sections() -> Iterator[str]:
    grouped: dict[str, list[Setting]] = {}
    for item in settings():
        grouped.setdefault(item[0].split(".")[0].removesuffix("[]"), []).append(item)
    for top, items in grouped.items():
        block = _block(CompactionConfig.model_fields[top])
        about = first_paragraph(block) if block else ""
        rows = [_row(*item) for item in items]
        yield section(top, about, known("notes", top) or "", table(("key", "type", "default", "description"), rows))


def _row(key: str, block: type[BaseModel], name: str) -> tuple[str, str, str, str]:
    field = block.model_fields[name]
    secret = " Masked in all output." if is_secret(name) else ""
    text = str(words("settings", key)).rstrip(".")
    return code(key), type_names.setting(field.annotation, field.metadata), default(block, name), f"{text}.{secret}"


def default(block: type[BaseModel], name: str) -> str:
    """The default value as `icepack config` prints it."""
    field = block.model_fields[name]
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or isinstance(value, BaseModel):
        return ""
    # Only what is set is printed of a policy block.
    shown = block.model_construct(_fields_set={name}, **{name: value}).model_dump(mode="json", include={name})[name]
    return code(_yaml(shown)) if shown not in ({}, [], "") else ""


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def variable(key: str) -> str:
    return "ICEPACK_" + key.upper().replace(".", "__")
