"""Foreign errors as icepack's own: whether a catalog did not answer, or one table cannot be read."""

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
def catalog_faults(name: str) -> Iterator[None]:
    """Turns whatever opening or listing a catalog raises into one sentence, keeping the cause."""
    try:
        yield
    except IcepackError:
        raise
    except Exception as exc:
        said = "could not be used" if _is_missing(exc) or _is_malformed(exc) else "did not answer"
        raise CatalogFault(
            f"Catalog '{name}' {said}: {_brief(exc)}", "`icepack doctor` checks the connection."
        ) from exc


@contextmanager
def table_faults(table: TableId) -> Iterator[None]:
    """Tells a table whose metadata is missing, damaged or not supported from a catalog or storage that is down."""
    try:
        yield
    except IcepackError:
        raise
    except Exception as exc:
        raise _table_fault(table, exc) from exc


def _table_fault(table: TableId, exc: Exception) -> IcepackError:
    if _is_missing(exc):
        return TableUnreadable(
            f"{table} cannot be read: a file of its metadata does not exist: {_brief(exc)}",
            "Restore the file, or drop the table from the catalog. Other tables are not affected.",
        )
    if _is_malformed(exc):
        return TableUnreadable(
            f"{table} cannot be read: its metadata is damaged, or not supported: {_brief(exc)}",
            "Other tables are not affected.",
        )
    return CatalogFault(
        f"Catalog '{table.catalog}' or its storage did not answer for {table}: {_brief(exc)}",
        "`icepack doctor` checks the connection.",
    )


def _is_missing(exc: Exception) -> bool:
    return isinstance(exc, _MISSING)


def _is_malformed(exc: Exception) -> bool:
    """Errors of connections are also OSErrors, some of them ValueErrors as well."""
    from pyiceberg.exceptions import ResolveError, ValidationError

    if isinstance(exc, OSError):
        return isinstance(exc, gzip.BadGzipFile)
    return isinstance(exc, (*_MALFORMED, ResolveError, ValidationError))


def _brief(exc: Exception) -> str:
    first_line = (str(exc).strip().splitlines() or ["no message"])[0][:300]
    return f"{type(exc).__name__}: {redact(first_line)}"
