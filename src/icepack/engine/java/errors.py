"""What a Java exception means to icepack."""

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


@contextmanager
def java_faults(doing: str) -> Iterator[None]:
    """Turns a Py4J error into the icepack error it stands for, keeping the cause."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors.exceptions.captured import CapturedException

    try:
        yield
    except Py4JJavaError as exc:
        raise classify(list(causes(exc.java_exception)), doing) from exc
    except CapturedException as exc:
        raise classify(_captured_causes(exc), doing) from exc


def causes(throwable: Any) -> Iterator[tuple[str, str]]:
    """Class name and message of the exception and all that caused it, outermost first."""
    seen = 0
    while throwable is not None and seen < 20:
        yield throwable.getClass().getName(), str(throwable.getMessage() or "")
        throwable = throwable.getCause()
        seen += 1


def _captured_causes(exc: Any) -> list[tuple[str, str]]:
    """PySpark wraps some Java exceptions in its own; the one underneath tells more."""
    if exc._origin is not None:
        return list(causes(exc._origin))
    return [(type(exc).__name__, str(exc))]


def classify(chain: list[tuple[str, str]], doing: str) -> IcepackError:
    for name, message in chain:
        found = _classify_one(name.rsplit(".", 1)[-1], message, doing)
        if found is not None:
            return found
    name, message = chain[-1]
    simple_name = name.rsplit(".", 1)[-1]
    if simple_name == "PythonException":
        return EngineFault(f"{doing} failed in a task: {redact(last_line(message))}")
    return EngineFault(f"{doing} failed: {simple_name}: {redact(first_line(message))}")


def _classify_one(name: str, message: str, doing: str) -> IcepackError | None:
    text = redact(first_line(message))
    match name:
        case "CommitStateUnknownException":
            return CommitStateUnknown(f"{doing}: the catalog did not say whether the commit landed. {text}")
        case "CommitFailedException":
            return CommitConflict(f"{doing}: another writer committed first. {text}")
        case "ValidationException" if _PREFIX_MISMATCH.search(message):
            return Refused(f"{doing}: {text}", "Say which schemes or authorities are the same, then run it again.")
        case "ValidationException" | "UncheckedSQLException" | "SQLiteException" if _CONFLICT.search(message):
            return CommitConflict(f"{doing}: another writer changed the same files. {text}")
        case "NotFoundException" | "FileNotFoundException":
            return CommitConflict(f"{doing}: a file that was planned is gone. {text}")
        case "NoSuchTableException" | "NoSuchNamespaceException":
            return TableNotFound(f"{doing}: {text}")
        case "IllegalArgumentException":
            return InvalidOption(f"{doing}: {text}")
        case _:
            return None


def first_line(message: str) -> str:
    return (message.strip().splitlines() or ["no message"])[0][:500]


def last_line(message: str) -> str:
    """Of a traceback of Python's: what happened stands below where it did."""
    return (message.strip().splitlines() or ["no message"])[-1][:500]
