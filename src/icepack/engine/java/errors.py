"""Converts Java exceptions into icepack errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icepack.errors import (
    CommitConflict,
    CommitStateUnknown,
    EngineFault,
    IcepackError,
    InvalidOption,
    Refused,
    TableNotFound,
    redact,
)

_CONFLICT = re.compile(
    r"Missing required files|Found (new|conflicting|concurrently)|Cannot commit|missing data files|"
    r"Deleted manifest .* could not be found|Replaced and created manifests must have the same|"
    r"Cannot determine history|stale table metadata|database is locked|SQLITE_BUSY",
    re.IGNORECASE,
)
_PREFIX_MISMATCH = re.compile("Unable to determine whether certain files are orphan")
# Limits how far a chain of causes is followed, in case it has a cycle.
_MAX_CAUSES = 20


@contextmanager
def wrap_java_errors(operation: str) -> Iterator[None]:
    """Converts Py4J and PySpark errors into icepack errors, keeping the cause."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except Py4JJavaError as exc:
        raise classify(list(causes(exc.java_exception)), operation) from exc
    except CapturedException as exc:
        raise classify(_captured_causes(exc), operation) from exc


def causes(throwable: Any) -> Iterator[tuple[str, str]]:
    """Yields the class name and the message of the exception and of its causes, outermost first."""
    depth = 0
    while throwable is not None and depth < _MAX_CAUSES:
        yield throwable.getClass().getName(), str(throwable.getMessage() or "")
        throwable = throwable.getCause()
        depth += 1


def _captured_causes(exc: Any) -> list[tuple[str, str]]:
    """PySpark wraps some Java exceptions in its own; the original has more details."""
    if exc._origin is not None:
        return list(causes(exc._origin))
    return [(type(exc).__name__, str(exc))]


def classify(chain: list[tuple[str, str]], operation: str) -> IcepackError:
    for name, message in chain:
        found = _classify_one(name.rsplit(".", 1)[-1], message, operation)
        if found is not None:
            return found
    name, message = chain[-1]
    simple_name = name.rsplit(".", 1)[-1]
    if simple_name == "PythonException":
        return EngineFault(f"{operation} failed in a task: {redact(last_line(message))}")
    return EngineFault(f"{operation} failed: {simple_name}: {redact(first_line(message))}")


def _classify_one(name: str, message: str, operation: str) -> IcepackError | None:
    text = redact(first_line(message))
    match name:
        case "CommitStateUnknownException":
            return CommitStateUnknown(f"{operation}: the catalog did not report whether the commit succeeded. {text}")
        case "CommitFailedException":
            return CommitConflict(f"{operation}: another writer committed first. {text}")
        case "ValidationException" if _PREFIX_MISMATCH.search(message):
            return Refused(f"{operation}: {text}", "Set the equal schemes or authorities, then run it again.")
        case "ValidationException" | "UncheckedSQLException" | "SQLiteException" if _CONFLICT.search(message):
            return CommitConflict(f"{operation}: another writer changed the same files. {text}")
        case "NotFoundException" | "FileNotFoundException":
            return CommitConflict(f"{operation}: a planned file no longer exists. {text}")
        case "NoSuchTableException" | "NoSuchNamespaceException":
            return TableNotFound(f"{operation}: {text}")
        case "IllegalArgumentException":
            return InvalidOption(f"{operation}: {text}")
        case _:
            return None


def first_line(message: str) -> str:
    return (message.strip().splitlines() or ["no message"])[0][:500]


def last_line(message: str) -> str:
    """The last line of a Python traceback has the error itself."""
    return (message.strip().splitlines() or ["no message"])[-1][:500]
