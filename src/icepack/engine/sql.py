"""Builds SQL text; the only module that does, so that every identifier and literal is quoted."""

from __future__ import annotations

from icepack.domain.table import TableId


def quote_identifier(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def table_name(table: TableId) -> str:
    return ".".join(quote_identifier(part) for part in table.parts)


def metadata_table(table: TableId, kind: str) -> str:
    return f"{table_name(table)}.{quote_identifier(kind)}"


def count_rows_at(table: TableId, snapshot_id: int) -> str:
    return f"SELECT count(*) AS rows FROM {table_name(table)} VERSION AS OF {int(snapshot_id)}"


def count_referenced_files(table: TableId) -> str:
    """Counts the files that any snapshot of the table references, without the metadata files."""
    files, manifests = metadata_table(table, "all_files"), metadata_table(table, "all_manifests")
    return (
        f"SELECT (SELECT count(DISTINCT file_path) FROM {files}) + (SELECT count(DISTINCT path) FROM {manifests}) "
        f"+ (SELECT count(*) FROM {metadata_table(table, 'snapshots')}) AS files"
    )
