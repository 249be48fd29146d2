"""The checks of `icepack doctor`; a check that fails has a remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from shlex import quote

from icepack.engine.spark_conf import jar_purposes
from icepack.errors import EnvironmentFault, IcepackError, TableUnreadable, find_missing_extra
from icepack.wiring import App

# How many tables the storage check tries to read before it fails.
MAX_TABLES_TRIED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    name: str
    ok: bool
    found: str
    remedy: str = ""


def run_fast_checks(app: App) -> Iterator[Check]:
    """Runs the checks that need nothing but the state database."""
    yield _run("python", _check_python)
    yield _run("state", lambda: _check_state(app))
    yield _run("native rewrite", lambda: _check_native(app))


def run_checks(app: App, *, start_spark: bool = True) -> Iterator[Check]:
    """Runs all checks in the order of their dependencies; a failed check does not stop the next one."""
    yield _run("python", _check_python)
    yield _run("java", lambda: f"{app.java.version} at {app.java.home} ({app.java.source})")
    yield _run("jars", lambda: _check_jars(app))
    if start_spark:
        yield _run("spark", lambda: _check_spark(app))
    yield _run("state", lambda: _check_state(app))
    yield _run("native rewrite", lambda: _check_native(app))
    if not app.loaded.lake_exists:
        yield _run("lake", app.loaded.require_lake)
        return
    yield from run_catalog_checks(app)


def run_catalog_checks(app: App) -> Iterator[Check]:
    for name in app.catalogs.names:
        yield _run(f"catalog {name}", lambda name=name: _check_catalog(app, name))  # type: ignore[misc]
        yield _run(f"storage {name}", lambda name=name: _check_storage(app, name))  # type: ignore[misc]


def _run(name: str, check: Callable[[], str]) -> Check:
    try:
        return Check(name=name, ok=True, found=check())
    except IcepackError as exc:
        return Check(name=name, ok=False, found=exc.message, remedy=exc.remedy)
    except ModuleNotFoundError as exc:
        missing = find_missing_extra(exc)
        if missing is None:
            raise
        return Check(name=name, ok=False, found=missing.message, remedy=missing.remedy)


def _check_python() -> str:
    try:
        pyspark = f"PySpark {version('pyspark')}"
    except PackageNotFoundError:
        pyspark = "PySpark is not installed"
    return f"{sys.version.split()[0]}, {pyspark}"


def _check_jars(app: App) -> str:
    found = app.jars.ensure(jar_purposes(app.catalog_properties))
    return f"{', '.join(path.name for path in found)} in {found[0].parent}"


def _check_spark(app: App) -> str:
    spark = app.sessions.spark
    iceberg = spark.sparkContext._jvm.org.apache.iceberg.IcebergBuild.version()
    return f"Spark {spark.version} on {spark.sparkContext.master}, Iceberg {iceberg}"


def _check_state(app: App) -> str:
    newest = app.history.runs(limit=1)
    return f"last run {newest[0].started_at:%Y-%m-%d %H:%M} UTC" if newest else "no run yet"


def _check_native(app: App) -> str:
    """Fails only if values differed: a table that was disabled manually needs no attention."""
    off = app.verification.all_native_disabled()
    if not off:
        return "enabled for every table"
    found = f"disabled for {', '.join(str(entry.table) for entry in off)}"
    mismatched = next((entry for entry in off if entry.mismatch is not None), None)
    if mismatched is None:
        return found
    name = quote(str(mismatched.table))
    raise EnvironmentFault(
        f"{found}; values differed on {sum(entry.mismatch is not None for entry in off)}",
        f"`icepack native list` shows why. Repeat the check with `icepack verify {name} --repeat`; once the cause is "
        f"fixed, run `icepack native enable {name}`.",
    )


def _check_catalog(app: App, name: str) -> str:
    return f"reachable, {len(app.discovery.tables(name)):,} tables"


def _check_storage(app: App, name: str) -> str:
    """Reads the metadata of one table, which is stored beside its data; tables with damaged metadata are skipped."""
    tables = app.discovery.tables(name)
    if not tables:
        return "no table to read yet"
    damaged: list[str] = []
    for table in tables[:MAX_TABLES_TRIED]:
        try:
            status = app.inspector.inspect(table)
        except TableUnreadable as exc:
            damaged.append(exc.message)
        else:
            return " ".join((f"read the metadata of {table} at {status.location}.", *damaged))
    raise TableUnreadable(damaged[0], f"None of the first {len(damaged)} tables could be read.")
