"""docs/reference/configuration.md: every key of icepack.yaml, from the settings' own types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from icepack.config.policy_block import PolicyBlock
from icepack.config.secrecy import is_secret
from icepack.config.settings import CompactionConfig

from generator import kinds
from generator.markdown import code, section, table
from generator.markdown import page as markdown_page
from generator.words import first_paragraph, words


def keys(model: type[BaseModel] = CompactionConfig, prefix: str = "") -> Iterator[tuple[str, type[BaseModel], str]]:
    """Every setting: its full key, the block it stands in, its name there; the policy's have a page of their own."""
    for name, field in model.model_fields.items():
        inner = _block(field)
        listed = "[]" if inner is not field.annotation else ""
        if inner is None or issubclass(inner, PolicyBlock):
            yield f"{prefix}{name}", model, name
        if inner is PolicyBlock:
            continue
        if inner is not None:
            own = ((key, block, part) for key, block, part in keys(inner, f"{prefix}{name}{listed}."))
            yield from (item for item in own if item[2] not in PolicyBlock.model_fields or block_is_plain(item[1]))


def block_is_plain(block: type[BaseModel]) -> bool:
    return not issubclass(block, PolicyBlock)


def _block(field: FieldInfo) -> type[BaseModel] | None:
    for kind in (field.annotation, *get_args(field.annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def page() -> str:
    return markdown_page("Configuration", words("pages", "configuration"), *_sections(), words("pages", "catalogs"))


def _sections() -> Iterator[str]:
    grouped: dict[str, list[tuple[str, type[BaseModel], str]]] = {}
    for item in keys():
        grouped.setdefault(item[0].split(".")[0].removesuffix("[]"), []).append(item)
    for top, items in grouped.items():
        block = _block(CompactionConfig.model_fields[top])
        about = first_paragraph(block) if block and block_is_plain(block) else ""
        rows = [_row(*item) for item in items]
        yield section(top, about, _note(top), table(("key", "type", "default", "what it does"), rows))


def _note(top: str) -> str:
    notes = words("notes")
    return str(notes.get(top, ""))


def _row(key: str, block: type[BaseModel], name: str) -> tuple[str, str, str, str]:
    field = block.model_fields[name]
    secret = " Masked wherever it is shown." if is_secret(name) or key == "state.url" else ""
    said = str(words("settings", key)).rstrip(".")
    return code(key), kinds.setting(field.annotation, field.metadata), _default(block, name), f"{said}.{secret}"


def _default(block: type[BaseModel], name: str) -> str:
    field = block.model_fields[name]
    if field.is_required():
        return "required"
    value = _shown(block, name)
    return "" if value in (None, {}, [], "") else code(_yaml(value))


def _shown(block: type[BaseModel], name: str) -> Any:
    """The default as `icepack config` would print it; a policy block shows only what is set, so it is set here."""
    given = {"match": "*", "name": "*"} if block is not CompactionConfig else {}
    required = {key: value for key, value in given.items() if key in block.model_fields}
    default = block.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, BaseModel):
        return None
    return block.model_construct(_fields_set={name}, **required, **{name: default}).model_dump(mode="json")[name]


def _yaml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def variable(key: str) -> str:
    return "ICEPACK_" + key.upper().replace(".", "__")
