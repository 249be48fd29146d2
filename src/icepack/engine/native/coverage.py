"""What the native path does exactly, and therefore does; everything else goes to Spark's procedure, with the reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icepack.domain.actions import Compact
from icepack.engine.native.jvm import LiveDelete, LiveFile
from icepack.kernel.arrow_schema import is_covered
from icepack.kernel.storage import S3_SCHEMES
from icepack.kernel.task import Writing

CODECS = frozenset({"zstd", "gzip", "snappy", "uncompressed"})
DELETE_KINDS = frozenset({"position", "vector", "equality"})
KNOWN_OPTIONS = frozenset(
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
MOST = 2**31 - 1
"""Iceberg keeps these numbers as Java's int."""
_RANGES = {
    "write.parquet.row-group-size-bytes": range(1024, MOST + 1),
    "write.parquet.page-size-bytes": range(64, MOST + 1),
    "write.parquet.page-row-limit": range(1, MOST + 1),
    "write.parquet.dict-size-bytes": range(64, MOST + 1),
    "write.parquet.row-group-check-min-record-count": range(1, MOST + 1),
    "write.parquet.row-group-check-max-record-count": range(1, MOST + 1),
}
"""Settings of Parquet's writer that are numbers, and the values for which the kernel writes what Spark would."""
CODEC, LEVEL = "write.parquet.compression-codec", "write.parquet.compression-level"
_LEVELS = {"zstd": range(1, 23), "gzip": range(1, 10)}
"""The other codecs have no level and ignore one."""
_UNTOLD = {
    "write.parquet.compression-level",
    "write.parquet.page-size-bytes",
    "write.parquet.page-row-limit",
    "write.parquet.dict-size-bytes",
}
"""What a file does not say of itself: it has to be encoded anew to be sure."""
_STORAGE_SETTINGS = re.compile(r"s3\.(remote-signing-enabled|sse\.|acl|access-grants|write\.|delete\.tags|cse)")
METRICS = "write.metadata.metrics."
DEFAULT_BOUND = 16
_TRUNCATED = re.compile(r"truncate\((\d+)\)")
_HARMLESS = frozenset({"", "false", "none", "s3"})


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What decides for the whole table."""

    schema: Mapping[str, Any]
    spec_id: int
    format_version: int
    properties: Mapping[str, str]
    location: str
    file_io: str
    file_io_properties: Mapping[str, str]

    @property
    def name_mapping(self) -> list[dict[str, Any]] | None:
        text = self.properties.get("schema.name-mapping.default")
        return None if text is None else json.loads(text)

    @property
    def writing(self) -> Writing:
        level = self.properties.get(LEVEL)
        codec = self.properties.get(CODEC)
        return Writing(
            codec=None if codec is None else codec.lower(),
            level=None if level is None else int(level),
            row_group_bytes=self._number("write.parquet.row-group-size-bytes", 128 * 2**20),
            page_bytes=self._number("write.parquet.page-size-bytes", 2**20),
            page_rows=self._number("write.parquet.page-row-limit", 20_000),
            dictionary_bytes=self._number("write.parquet.dict-size-bytes", 2 * 2**20),
            as_found=not self.properties.keys() & _UNTOLD,
            longest_bound=self._longest_bound(),
        )

    def _longest_bound(self) -> int | None:
        """Of all columns: which of them a value is of is seen to when it is committed."""
        modes = [mode for name, mode in self.properties.items() if name.startswith(METRICS)]
        cuts = [_TRUNCATED.fullmatch(mode.strip().lower()) for mode in modes]
        if any(mode.strip().lower() == "full" for mode in modes):
            return None
        return max([DEFAULT_BOUND, *(int(cut[1]) for cut in cuts if cut)])

    def _number(self, name: str, default: int) -> int:
        return int(self.properties.get(name, default))


def table_obstacle(facts: TableFacts, action: Compact) -> str | None:
    """Why no group of the table can be rewritten natively; None when it can."""
    return next(_table_obstacles(facts, action), None)


def _table_obstacles(facts: TableFacts, action: Compact) -> Iterator[str]:
    yield from _options(action)
    yield from _properties(facts.properties)
    yield from _columns(facts.schema)
    yield from _storage(facts)


def _options(action: Compact) -> Iterator[str]:
    for name in sorted(set(action.options) - KNOWN_OPTIONS):
        yield f"option {name}"


def _properties(properties: Mapping[str, str]) -> Iterator[str]:
    if properties.get("write.format.default", "parquet").lower() != "parquet":
        yield f"new files in {properties['write.format.default']}"
    if properties.get(CODEC, "zstd").lower() not in CODECS:
        yield f"compression with {properties[CODEC]}"
    if "encryption.key-id" in properties:
        yield "encryption"
    for name in sorted(name for name in properties if name.startswith("write.parquet.")):
        if name in _RANGES:
            yield from _out_of_range(name, properties[name], [_RANGES[name]])
        elif name == LEVEL:
            yield from _out_of_range(name, properties[name], _level_ranges(properties.get(CODEC)))
        elif name != CODEC:
            yield f"property {name}"


def _level_ranges(codec: str | None) -> list[range]:
    """Without a codec of the table's own, that of its files counts, which may be any."""
    codecs = _LEVELS if codec is None else [codec.lower()]
    return [_LEVELS.get(name, range(MOST + 1)) for name in codecs]


def _out_of_range(name: str, text: str, allowed: Sequence[range]) -> Iterator[str]:
    if not text.isascii() or not text.isdigit():
        yield f"property {name} is not a number"
    elif not all(int(text) in values for values in allowed):
        yield f"property {name} with the value {text}"


def _columns(schema: Mapping[str, Any]) -> Iterator[str]:
    for field in schema["fields"]:
        if not is_covered(field["type"]):
            yield f"column {field['name']} of a type that it does not know"
        yield from _defaults(field, field["name"])


def _defaults(field: Mapping[str, Any], path: str) -> Iterator[str]:
    """Those of single values are filled in at any depth; Iceberg itself has no others yet."""
    kind = field["type"]
    if field.get("initial-default") is not None and not isinstance(kind, str):
        yield f"default of the nested column {path}"
    for name, part in _parts(kind):
        yield from _defaults(part, f"{path}.{name}")


def _parts(kind: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields inside a type, each with its name."""
    if isinstance(kind, str):
        return
    yield from ((part["name"], part) for part in kind.get("fields", ()))
    yield from ((name, {"type": kind[name]}) for name in ("element", "key", "value") if name in kind)


def _storage(facts: TableFacts) -> Iterator[str]:
    scheme = facts.location.split(":", 1)[0] if ":" in facts.location else ""
    if scheme in S3_SCHEMES:
        if not facts.file_io.endswith(("S3FileIO", "ResolvingFileIO")):
            yield f"S3 through {facts.file_io.rsplit('.', 1)[-1]}"
        for name, value in sorted(facts.file_io_properties.items()):
            if _STORAGE_SETTINGS.match(name) and value.lower() not in _HARMLESS:
                yield f"storage setting {name}"
    elif scheme not in ("", "file"):
        yield f"{scheme} storage"


def group_obstacle(
    facts: TableFacts, files: Sequence[LiveFile], deletes: Iterable[LiveDelete], delete_limit_bytes: int
) -> str | None:
    """Why this group cannot be rewritten natively; None when it can."""
    return next(_group_obstacles(facts, files, list(deletes), delete_limit_bytes), None)


def _group_obstacles(
    facts: TableFacts, files: Sequence[LiveFile], deletes: Sequence[LiveDelete], limit_bytes: int
) -> Iterator[str]:
    top_level = {field["id"] for field in facts.schema["fields"]}
    for file in files:
        if file.format != "PARQUET":
            yield f"{file.format} files"
        if file.spec_id != facts.spec_id:
            yield "files of an older partition spec"
        if not file.constants.keys() <= top_level:
            yield "a partition by the identity of a nested column"
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
            yield from _equality(facts, delete)
    if delete_bytes(deletes) > limit_bytes:
        yield "deletes that do not fit into a task's memory"


def delete_bytes(deletes: Iterable[LiveDelete]) -> int:
    """What they take in memory: a position is a number; a key is what it is in its file, unpacked, and an entry."""
    return sum(
        delete.records * 16 if delete.kind != "equality" else delete.records * 48 + delete.bytes * 8
        for delete in deletes
    )


def _equality(facts: TableFacts, delete: LiveDelete) -> Iterator[str]:
    kinds = {field["id"]: field["type"] for field in facts.schema["fields"]}
    for number in delete.equality_ids:
        if number not in kinds:
            yield "equality deletes on a column that is nested or gone"
        elif not isinstance(kinds[number], str) or kinds[number] in ("float", "double"):
            yield f"equality deletes on a column of type {kinds[number]}"
