"""Converts errors of PyIceberg and the storage into CatalogFault or TableUnreadable."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from icepack.domain.table import TableId
from icepack.errors import CatalogFault, IcepackError, TableUnreadable, redact

_MISSING = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
_MALFORMED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    gzip.BadGzipFile,
    struct.error,
    zlib.error,
)


@contextmanager
def wrap_catalog_errors(name: str) -> Iterator[None]:
    """Converts any error raised while opening or listing a catalog into CatalogFault, keeping the cause."""
    try:
        yield
    except IcepackError:
        raise
    except Exception as exc:
        problem = "could not be used" if _is_missing(exc) or _is_malformed(exc) else "did not answer"
        raise CatalogFault(
            f"Catalog '{name}' {problem}: {_describe(exc)}", "`icepack doctor` checks the connection."
        ) from exc


@contextmanager
def wrap_table_errors(table: TableId) -> Iterator[None]:
    """Raises TableUnreadable if the metadata is missing, damaged or unsupported, and CatalogFault for other errors."""
    try:
        yield
    except IcepackError:
        raise
    except Exception as exc:
        raise _convert_table_error(table, exc) from exc


def _convert_table_error(table: TableId, exc: Exception) -> IcepackError:
    if _is_missing(exc):
        return TableUnreadable(
            f"Cannot read the metadata of {table}: a file does not exist: {_describe(exc)}",
            "Restore the file, or drop the table from the catalog. Other tables are not affected.",
        )
    if _is_malformed(exc):
        return TableUnreadable(
            f"Cannot read the metadata of {table}: it is damaged or not supported: {_describe(exc)}",
            "Other tables are not affected.",
        )
    return CatalogFault(
        f"Catalog '{table.catalog}' or its storage did not answer for {table}: {_describe(exc)}",
        "`icepack doctor` checks the connection.",
    )


def _is_missing(exc: Exception) -> bool:
    return isinstance(exc, _MISSING)


def _is_malformed(exc: Exception) -> bool:
    from pyiceberg.exceptions import ResolveError, ValidationError

    # Connection errors are OSErrors, and some of them are ValueErrors as well, so OSError is checked first.
    if isinstance(exc, OSError):
        return isinstance(exc, gzip.BadGzipFile)
    return isinstance(exc, (*_MALFORMED, ResolveError, ValidationError))


def _describe(exc: Exception) -> str:
    first_line = (str(exc).strip().splitlines() or ["no message"])[0][:300]
    return f"{type(exc).__name__}: {redact(first_line)}"
