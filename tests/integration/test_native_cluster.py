"""Runs the native rewrite on a standalone cluster with a master process and a worker process."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
import yaml
from pyiceberg.catalog import load_catalog

from icepack.config.folders import EmbeddedLake
from icepack.engine.java.runtime import find_java, spark_java_home

SECRET = "a-secret-value"
SPARK_HOME = Path(pyspark.__file__).parent


@dataclass
class Cluster:
    url: str
    folder: Path


def _launch(kind: str, arguments: list[str], folder: Path) -> tuple[subprocess.Popen[bytes], Path]:
    log = folder / f"{kind.lower()}.log"
    java = spark_java_home(find_java(None, os.environ), folder)
    environ = {
        **os.environ,
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(folder / "work"),
        "SPARK_DAEMON_MEMORY": "256m",
    }
    environ.pop("SPARK_HOME", None)
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environ, stdout=output, stderr=output, start_new_session=True)
    return process, log


def _wait_for_log(process: subprocess.Popen[bytes], log: Path, pattern: str) -> str:
    for _ in range(600):
        found = re.search(pattern, log.read_text("utf-8", "replace"))
        if found:
            return found[0]
        assert process.poll() is None, log.read_text("utf-8", "replace")
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not contain {pattern}: {log.read_text('utf-8', 'replace')}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    started = []
    try:
        master, log = _launch("Master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"], folder)
        started.append(master)
        url = _wait_for_log(master, log, r"spark://127\.0\.0\.1:\d+")
        worker, log = _launch("Worker", ["--cores", "2", "--memory", "1g", "--webui-port", "0", url], folder)
        started.append(worker)
        _wait_for_log(worker, log, "Successfully registered with master")
        yield Cluster(url, folder)
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


@dataclass
class Site:
    """A lake with one table of many small files, and a configuration file for the cluster."""

    folder: Path
    config: Path
    catalog: Any

    @property
    def table(self) -> Any:
        return self.catalog.load_table("db.readings")

    @property
    def rows(self) -> pa.Table:
        return self.table.scan().to_arrow().sort_by("id")

    def compact(self, **environ: str) -> dict[str, Any]:
        icepack = Path(sys.executable).with_name("icepack")
        command = [str(icepack), "--config", str(self.config), "run", "compact", "db.readings"]
        process = subprocess.run(
            [*command, "--rewrite-all", "--format", "json"],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert process.returncode == 0, process.stdout + process.stderr
        assert SECRET not in process.stdout + process.stderr
        record: dict[str, Any] = json.loads(process.stdout)["run"]
        return record


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Site:
    lake = EmbeddedLake(tmp_path)
    properties = {**lake.properties, "s3.secret-access-key": SECRET}
    events = tmp_path / "events"
    events.mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.executor.memory": "512m"}
    config = tmp_path / "icepack.yaml"
    settings = {
        "catalogs": {"lake": properties},
        "state": {"url": f"sqlite:///{tmp_path / 'state.db'}"},
        "spark": {"master": cluster.url, "conf": conf},
    }
    config.write_text(yaml.safe_dump(settings), "utf-8")
    catalog = load_catalog("lake", **lake.properties)
    catalog.create_namespace("db")
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("value", pa.float64())])
    table = catalog.create_table("db.readings", schema)
    for part in range(6):
        ids = list(range(part * 100, part * 100 + 100))
        table.append(pa.table([ids, [f"w{n % 7}" for n in ids], [n / 3 for n in ids]], schema=schema))
    return Site(tmp_path, config, catalog)


def _create_python(folder: Path, *packages: str) -> str:
    """Creates a Python environment with only these packages of the test environment."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    for package in packages:
        home = Path(importlib.import_module(package).__file__ or "").parent
        for part in (home, home.with_name(f"{package}.libs")):
            if part.exists():
                (site_packages / part.name).symlink_to(part)
    return str(folder / "bin" / "python")


def test_executors_without_icepack_run_the_kernel_and_the_event_log_has_no_secrets(
    site: Site, cluster: Cluster
) -> None:
    before = site.rows
    record = site.compact(PYSPARK_PYTHON=_create_python(cluster.folder / "kernel-only", "pyarrow", "numpy"))
    assert record["details"]["native_groups"] == 1, record["details"]
    assert site.rows.equals(before)
    assert len(list(site.table.scan().plan_files())) == 1
    events = [path for path in (site.folder / "events").rglob("*") if path.is_file()]
    assert events
    assert all(SECRET.encode() not in path.read_bytes() for path in events)


def test_workers_stay_within_the_memory_limit_of_spark(site: Site) -> None:
    before = site.rows
    record = site.compact(ICEPACK_SPARK__CONF__spark__executor__pyspark__memory="2g")
    assert record["details"]["native_groups"] == 1, record["details"]
    assert site.rows.equals(before)


def test_workers_with_too_little_memory_fall_back_to_spark(site: Site) -> None:
    before = site.rows
    record = site.compact(ICEPACK_SPARK__CONF__spark__executor__pyspark__memory="512m")
    (group,) = record["details"]["groups"]
    assert group["engine"] == "spark"
    assert group["why"] == (
        "executors with 256 MB of memory for a Python task, of which the kernel needs 664: "
        "increase spark.executor.pyspark.memory"
    )
    assert site.rows.equals(before)


def test_executors_without_the_library_fall_back_to_spark(site: Site, cluster: Cluster) -> None:
    """Their Python has no PyArrow, which is detected before tasks are sent to them."""
    before = site.rows
    record = site.compact(PYSPARK_PYTHON=_create_python(cluster.folder / "bare"))
    assert record["details"]["native_groups"] == 0
    (group,) = record["details"]["groups"]
    assert group["engine"] == "spark"
    assert "without the kernel's library" in group["why"]
    assert site.rows.equals(before)
