"""Decides what the native rewrite supports; everything else falls back to Spark's procedure, with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from icepack.domain.actions import Compact
from icepack.engine.native.java_rewrite import LiveDelete, LiveFile
from icepack.engine.native.table_facts import CODEC, LEVEL, TableFacts
from icepack.kernel.arrow_schema import is_supported_type
from icepack.kernel.storage import S3_SCHEMES

CODECS = frozenset({"zstd", "gzip", "snappy", "uncompressed"})
DELETE_KINDS = frozenset({"position", "vector", "equality"})
# Options of `rewrite_data_files` that the native rewrite supports.
SUPPORTED_OPTIONS = frozenset(
    {
        "target-file-size-bytes",
        "min-file-size-bytes",
        "min-input-files",
        "delete-file-threshold",
        "rewrite-all",
        "partial-progress.enabled",
        "partial-progress.max-commits",
        "max-concurrent-file-group-rewrites",
    }
)
# The maximum of Java's int, as which Iceberg stores the settings below.
MAX_INT = 2**31 - 1
# The numeric settings of the Parquet writer, with the values for which the kernel writes the same files as Spark.
_SUPPORTED_RANGES = {
    "write.parquet.row-group-size-bytes": range(1024, MAX_INT + 1),
    "write.parquet.page-size-bytes": range(64, MAX_INT + 1),
    "write.parquet.page-row-limit": range(1, MAX_INT + 1),
    "write.parquet.dict-size-bytes": range(64, MAX_INT + 1),
    "write.parquet.row-group-check-min-record-count": range(1, MAX_INT + 1),
    "write.parquet.row-group-check-max-record-count": range(1, MAX_INT + 1),
}
# Other codecs have no compression level and ignore the setting.
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10)}
# Settings of S3FileIO that the kernel does not support.
_UNSUPPORTED_S3_SETTINGS = re.compile(r"s3\.(remote-signing-enabled|sse\.|acl|access-grants|write\.|delete\.tags|cse)")
# Values with which these settings have no effect.
_NO_EFFECT = frozenset({"", "false", "none", "s3"})


def table_fallback_reason(facts: TableFacts, action: Compact) -> str | None:
    """Why no group of the table can be rewritten natively; None if the table is supported."""
    return next(_table_reasons(facts, action), None)


def _table_reasons(facts: TableFacts, action: Compact) -> Iterator[str]:
    yield from _option_reasons(action)
    yield from _property_reasons(facts.properties)
    yield from _column_reasons(facts.schema)
    yield from _storage_reasons(facts)


def _option_reasons(action: Compact) -> Iterator[str]:
    for name in sorted(set(action.options) - SUPPORTED_OPTIONS):
        yield f"option {name}"


def _property_reasons(properties: Mapping[str, str]) -> Iterator[str]:
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        yield f"new files in {properties['write.format.default']}"
    if properties.get(CODEC, "zstd").lower() not in CODECS:
        yield f"compression with {properties[CODEC]}"
    if "encryption.key-id" in properties:
        yield "encryption"
    for name in sorted(name for name in properties if name.startswith("write.parquet.")):
        if name in _SUPPORTED_RANGES:
            yield from _range_reasons(name, properties[name], [_SUPPORTED_RANGES[name]])
        elif name == LEVEL:
            yield from _range_reasons(name, properties[name], _level_ranges(properties.get(CODEC)))
        elif name != CODEC:
            yield f"property {name}"


def _level_ranges(codec: str | None) -> list[range]:
    """If the table sets no codec, each file keeps its own, so the level must be valid for all codecs."""
    codecs = _LEVELS if codec is None else [codec.lower()]
    return [_LEVELS.get(name, range(MAX_INT + 1)) for name in codecs]


def _range_reasons(name: str, text: str, allowed: Sequence[range]) -> Iterator[str]:
    if not text.isascii() or not text.isdigit():
        yield f"property {name} is not a number"
    elif not all(int(text) in values for values in allowed):
        yield f"property {name} with the value {text}"


def _column_reasons(schema: Mapping[str, Any]) -> Iterator[str]:
    for field in schema["fields"]:
        if not is_supported_type(field["type"]):
            yield f"column {field['name']} of an unsupported type"
        yield from _default_reasons(field, field["name"])


def _default_reasons(field: Mapping[str, Any], path: str) -> Iterator[str]:
    """Defaults of primitive fields are supported at any depth; Iceberg itself supports no others yet."""
    kind = field["type"]
    if field.get("initial-default") is not None and not isinstance(kind, str):
        yield f"default of the nested column {path}"
    for name, nested in _nested_fields(kind):
        yield from _default_reasons(nested, f"{path}.{name}")


def _nested_fields(kind: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if isinstance(kind, str):
        return
    yield from ((field["name"], field) for field in kind.get("fields", ()))
    yield from ((name, {"type": kind[name]}) for name in ("element", "key", "value") if name in kind)


def _storage_reasons(facts: TableFacts) -> Iterator[str]:
    scheme = facts.location.split(":", 1)[0] if ":" in facts.location else ""
    if scheme in S3_SCHEMES:
        if not facts.file_io.endswith(("S3FileIO", "ResolvingFileIO")):
            yield f"S3 through {facts.file_io.rsplit('.', 1)[-1]}"
        for name, value in sorted(facts.file_io_properties.items()):
            if _UNSUPPORTED_S3_SETTINGS.match(name) and value.lower() not in _NO_EFFECT:
                yield f"storage setting {name}"
    elif scheme not in ("", "file"):
        yield f"{scheme} storage"


def group_fallback_reason(
    facts: TableFacts, files: Sequence[LiveFile], deletes: Iterable[LiveDelete], delete_limit_bytes: int
) -> str | None:
    """Why this group cannot be rewritten natively; None if it is supported."""
    return next(_group_reasons(facts, files, list(deletes), delete_limit_bytes), None)


def _group_reasons(
    facts: TableFacts, files: Sequence[LiveFile], deletes: Sequence[LiveDelete], limit_bytes: int
) -> Iterator[str]:
    top_level = {field["id"] for field in facts.schema["fields"]}
    for file in files:
        if file.format != "PARQUET":
            yield f"{file.format} files"
        if file.spec_id != facts.spec_id:
            yield "files of an older partition spec"
        if not file.constants.keys() <= top_level:
            yield "an identity partition on a nested column"
        if file.encrypted:
            yield "encryption"
    for delete in deletes:
        if delete.kind not in DELETE_KINDS:
            yield f"deletes of the kind {delete.kind}"
        if delete.encrypted:
            yield "encryption"
        if delete.kind != "vector" and delete.format != "PARQUET":
            yield f"deletes in {delete.format} files"
        if delete.kind == "equality":
            yield from _equality_reasons(facts, delete)
    if estimate_delete_bytes(deletes) > limit_bytes:
        yield "deletes that do not fit into a task's memory"


def estimate_delete_bytes(deletes: Iterable[LiveDelete]) -> int:
    """The memory that they need: a number per position; for equality deletes, the decoded key and a hash entry."""
    return sum(
        delete.records * 16 if delete.kind != "equality" else delete.records * 48 + delete.bytes * 8
        for delete in deletes
    )


def _equality_reasons(facts: TableFacts, delete: LiveDelete) -> Iterator[str]:
    kinds = {field["id"]: field["type"] for field in facts.schema["fields"]}
    for field_id in delete.equality_ids:
        if field_id not in kinds:
            yield "equality deletes on a nested or dropped column"
        elif not isinstance(kinds[field_id], str) or kinds[field_id] in ("float", "double"):
            yield f"equality deletes on a column of type {kinds[field_id]}"
