"""A real lake for tests: Spark writes, icepack maintains, and the rows of every branch and tag can be compared."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from pyspark.sql import DataFrame, SparkSession

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.ledger import SnapshotLedger
from icepack.catalog.manifests import ManifestReader, MemoryManifestCache
from icepack.config.folders import EmbeddedLake
from icepack.domain.actions import Action
from icepack.domain.run import RunRecord
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.engine import sql
from icepack.engine.session import SparkSessions
from icepack.engine.spark_actions import SparkSessionEngine, load_table
from icepack.service.maintenance import MaintenanceRunner, RetryPolicy, RunRequest, RunTools
from icepack.store.backend import select_history_store

NAMESPACE = "db"
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
"""Updates and deletes then write delete files instead of data files."""

Rows = list[str]


class Lake:
    """The embedded lake with everything icepack needs to keep it, put together by hand."""

    def __init__(self, place: EmbeddedLake, sessions: SparkSessions) -> None:
        self.folder = place.folder
        self.catalogs = Catalogs({"lake": place.properties})
        self.catalogs.open("lake").create_namespace(NAMESPACE)
        self.sessions = sessions
        self.discovery = CatalogDiscovery(self.catalogs)
        self.reader = ManifestReader(MemoryManifestCache())
        self.inspector = PyIcebergInspector(self.catalogs, self.reader)
        self.engine = SparkSessionEngine(sessions)
        self.history = select_history_store(f"sqlite:///{place.folder / 'state.db'}")
        self.tools = RunTools(
            inspector=self.inspector,
            ledger=SnapshotLedger(self.catalogs, self.reader),
            engine=self.engine,
            history=self.history,
            locations=self.discovery.locations,
            retry=RetryPolicy(base_delay=timedelta(milliseconds=1)),
        )
        self._numbers = itertools.count(1)

    @property
    def spark(self) -> SparkSession:
        return self.sessions.spark

    def close(self) -> None:
        self.sessions.close()
        self.history.close()

    def sql(self, statement: str) -> DataFrame:
        return self.spark.sql(statement)
