"""The blocks of `icepack.yaml`, with their defaults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from icepack.config.types import (
    CommaSeparated,
    CronLine,
    Duration,
    Properties,
    ScopeText,
    SettingsSection,
    Size,
    ZoneName,
    invalid_value_error,
)
from icepack.domain.access import Role
from icepack.domain.job import DEFAULT_MAX_ATTEMPTS
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.scheduling.schedule import DEFAULT_CATCH_UP, DEFAULT_CRON

_POLICY = Policy()
_COST = CostModel()

PositiveSize = Annotated[Size, Field(gt=0)]
Price = Annotated[float, Field(ge=0)]


class ServerSettings(SettingsSection):
    """The address of the API, and the limits on its requests."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    allowed_hosts: Annotated[tuple[str, ...], CommaSeparated] = ()
    trusted_proxies: Annotated[tuple[str, ...], CommaSeparated] = ()
    # None: secure, unless the API listens on the loopback interface only.
    secure_cookies: bool | None = None
    max_body: PositiveSize = 1024 * 1024
    # For each caller; 0 means no limit.
    requests_per_second: float = Field(default=100.0, ge=0)


class OidcGrant(SettingsSection):
    """The role and scopes of callers whose roles claim contains a value."""

    value: str
    role: Role
    scopes: Annotated[tuple[ScopeText, ...], CommaSeparated] = ("*",)


class OidcSettings(SettingsSection):
    """Bearer tokens from an OpenID Connect issuer."""

    issuer: str | None = None
    audience: str | None = None
    # None: taken from the issuer's discovery document.
    jwks_url: str | None = None
    algorithms: Annotated[tuple[str, ...], CommaSeparated] = ("RS256", "ES256")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    grants: list[OidcGrant] = Field(default=[])

    @model_validator(mode="after")
    def _require_audience(self) -> Self:
        if self.issuer and not self.audience:
            raise invalid_value_error(
                "an issuer needs an audience; without it, tokens for other services would be accepted"
            )
        return self


class AuthSettings(SettingsSection):
    """Who may use the API."""

    # Authentication is also on whenever an OIDC issuer is configured.
    enabled: bool = False
    session_lifetime: Duration = Field(default=timedelta(hours=12), gt=timedelta(0))
    oidc: OidcSettings = OidcSettings()

    @property
    def is_on(self) -> bool:
        return self.enabled or self.oidc.issuer is not None


class StorageSettings(SettingsSection):
    """Object storage for catalogs that do not configure their own."""

    type: Literal["s3", "gcs"] = "s3"
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    access_key_id: str | None = Field(default=None, repr=False)
    secret_access_key: str | None = Field(default=None, repr=False)
    path_style_access: bool | None = None


class SmallFilesSettings(SettingsSection):
    """Merges files that are smaller than the threshold."""

    enabled: bool = True
    threshold: PositiveSize = _POLICY.small_file_threshold
    # Overrides `compaction.target_file_size`.
    target_size: PositiveSize | None = None


class DeleteFilesSettings(SettingsSection):
    """Rewrites files whose share of deleted rows exceeds the threshold."""

    enabled: bool = True
    fragment_ratio_threshold: float = Field(default=_POLICY.fragment_ratio_threshold, ge=0)


class TimeSeriesSettings(SettingsSection):
    """Skips partitions that are still being written."""

    # None: the same as `small_files.enabled`.
    enabled: bool | None = None
    open_partition_grace: Duration = _POLICY.open_partition_grace


class StrategySettings(SettingsSection):
    """Which files compaction rewrites; a strategy that is disabled here is disabled for every table."""

    small_files: SmallFilesSettings = SmallFilesSettings()
    delete_files: DeleteFilesSettings = DeleteFilesSettings()
    time_series: TimeSeriesSettings = TimeSeriesSettings()


class CompactionSettings(SettingsSection):
    """How files are rewritten."""

    target_file_size: PositiveSize = _POLICY.target_file_size
    max_parallelism: int | None = Field(default=None, ge=1)
    strategies: StrategySettings = StrategySettings()


class SchedulerSettings(SettingsSection):
    """When tables without their own schedule are maintained."""

    enabled: bool = True
    default_schedule: CronLine = DEFAULT_CRON
    timezone: ZoneName = "UTC"
    jitter: Duration = timedelta(0)
    catch_up: Duration = DEFAULT_CATCH_UP


class OrchestratorSettings(SettingsSection):
    """How recommendations for all tables are turned into jobs."""

    interval: Duration = timedelta(minutes=5)
    concurrency: int = Field(default=4, ge=1)
    shadow: bool = False
    retry_after: Duration = timedelta(hours=6)
    dollars_per_point: Price = 0.01


class HealthSyncSettings(SettingsSection):
    """How the table cache is kept up to date."""

    interval: Duration = timedelta(minutes=5)
    refresh_after: Duration = timedelta(days=1)
    parallelism: int = Field(default=4, ge=1)


class CostSettings(SettingsSection):
    """Prices and throughput of the cost model."""

    get_dollars_per_1000: Price = _COST.get_dollars_per_1000
    put_dollars_per_1000: Price = _COST.put_dollars_per_1000
    compute_dollars_per_gb_second: Price = _COST.compute_dollars_per_gb_second
    memory_gb: float = Field(default=_COST.memory_gb, gt=0)
    rewrite_bytes_per_core_second: PositiveSize = int(_COST.rewrite_bytes_per_core_second)
    parallelism: int = Field(default=_COST.parallelism, ge=1)
    startup_seconds: Price = _COST.startup_seconds


class SparkSettings(SettingsSection):
    """How Spark is started."""

    master: str = "local[*]"
    driver_memory: str = "2g"
    conf: Properties = Field(default={})
    # A folder that contains the Iceberg runtime, for machines without network access.
    jars: Path | None = None
    ivy_settings: Path | None = None
    java_home: Path | None = None


class StateSettings(SettingsSection):
    """The database that stores jobs, locks and the history."""

    url: str | None = Field(default=None, repr=False)


class WorkerSettings(SettingsSection):
    """How workers claim jobs, and when a failed job is retried."""

    lease: Duration = Field(default=timedelta(seconds=60), ge=timedelta(seconds=1))
    poll: Duration = timedelta(seconds=5)
    max_attempts: int = Field(default=DEFAULT_MAX_ATTEMPTS, ge=1)
    retry_delay: Duration = timedelta(seconds=30)


class RetrySettings(SettingsSection):
    """How often and with which delay a commit that conflicts with another writer is retried."""

    max_attempts: int = Field(default=5, ge=1)
    base_delay: Duration = timedelta(seconds=1)
