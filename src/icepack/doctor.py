"""The checks behind `icepack doctor`: each says what it found and, where it is wrong, the remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from shlex import quote

from icepack.engine.spark_conf import jar_purposes
from icepack.errors import EnvironmentFault, IcepackError, TableUnreadable
from icepack.wiring import App

TRIED_TABLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    found: str
    remedy: str = ""


def quick_checks(app: App) -> Iterator[Check]:
    """Those that reach out to nothing but the state database."""
    yield _check("python", _python)
    yield _check("state", lambda: _state(app))
    yield _check("native rewrite", lambda: _native(app))


def checks(app: App, *, start_spark: bool = True) -> Iterator[Check]:
    """In the order in which things depend on each other; one that fails does not stop the next."""
    yield _check("python", _python)
    yield _check("java", lambda: f"{app.java.version} at {app.java.home} ({app.java.source})")
    yield _check("jars", lambda: _jars(app))
    if start_spark:
        yield _check("spark", lambda: _spark(app))
    yield _check("state", lambda: _state(app))
    yield _check("native rewrite", lambda: _native(app))
    if not app.loaded.lake_exists:
        yield _check("lake", app.loaded.need_lake)
        return
    yield from catalog_checks(app)


def catalog_checks(app: App) -> Iterator[Check]:
    for name in app.catalogs.names:
        yield _check(f"catalog {name}", lambda name=name: _catalog(app, name))  # type: ignore[misc]
        yield _check(f"storage {name}", lambda name=name: _storage(app, name))  # type: ignore[misc]


def _check(name: str, look: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, found=look())
    except IcepackError as exc:
        return Check(name=name, ok=False, found=exc.message, remedy=exc.remedy)


def _python() -> str:
    return f"{sys.version.split()[0]}, PySpark {version('pyspark')}"


def _jars(app: App) -> str:
    found = app.jars.ensure(jar_purposes(app.catalog_properties))
    return f"{', '.join(path.name for path in found)} in {found[0].parent}"


def _spark(app: App) -> str:
    spark = app.sessions.spark
    iceberg = spark.sparkContext._jvm.org.apache.iceberg.IcebergBuild.version()
    return f"Spark {spark.version} on {spark.sparkContext.master}, Iceberg {iceberg}"


def _state(app: App) -> str:
    newest = app.history.runs(limit=1)
    return f"last run {newest[0].started_at:%Y-%m-%d %H:%M} UTC" if newest else "no run yet"


def _native(app: App) -> str:
    """Off by hand is a choice; off after a mismatch needs somebody to look."""
    off = app.verification.all_native_disabled()
    if not off:
        return "on for every table"
    found = f"off for {', '.join(str(entry.table) for entry in off)}"
    mismatched = next((entry for entry in off if entry.mismatch is not None), None)
    if mismatched is None:
        return found
    name = quote(str(mismatched.table))
    raise EnvironmentFault(
        f"{found}; values differed on {sum(entry.mismatch is not None for entry in off)}",
        f"`icepack native list` says why. Repeat the check with `icepack verify {name} --repeat`; once the cause is "
        f"repaired, `icepack native enable {name}`.",
    )


def _catalog(app: App, name: str) -> str:
    return f"reached, {len(app.discovery.tables(name)):,} tables"


def _storage(app: App, name: str) -> str:
    """Reads one table's metadata, which lies where its data lies; a damaged table says nothing of the storage."""
    tables = app.discovery.tables(name)
    if not tables:
        return "no table to read yet"
    damaged: list[str] = []
    for table in tables[:TRIED_TABLES]:
        try:
            status = app.inspector.inspect(table)
        except TableUnreadable as exc:
            damaged.append(exc.message)
        else:
            return " ".join((f"read the metadata of {table} at {status.location}.", *damaged))
    raise TableUnreadable(damaged[0], "None of the first tables could be read.")
