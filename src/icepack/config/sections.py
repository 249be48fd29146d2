"""The blocks of `icepack.yaml`, with their defaults."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from icepack.config.types import (
    CronLine,
    Duration,
    Listed,
    Properties,
    ScopeText,
    Section,
    Size,
    ZoneName,
    does_not_fit,
)
from icepack.domain.access import Role
from icepack.domain.job import DEFAULT_MAX_ATTEMPTS
from icepack.domain.plan.cost import CostModel
from icepack.domain.policy import Policy
from icepack.domain.scheduling.schedule import DEFAULT_CATCH_UP, DEFAULT_LINE

_POLICY = Policy()
_COST = CostModel()

SomeBytes = Annotated[Size, Field(gt=0)]
Price = Annotated[float, Field(ge=0)]


class ServerSettings(Section):
    """Where the API listens, and how much it takes."""

    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    allowed_hosts: Annotated[tuple[str, ...], Listed] = ()
    trusted_proxies: Annotated[tuple[str, ...], Listed] = ()
    secure_cookies: bool | None = None
    """None is: unless it listens on loopback only."""
    max_body: SomeBytes = 1024 * 1024
    requests_per_second: float = Field(default=100.0, ge=0)
    """By each caller; 0 is as many as they like."""


class OidcGrant(Section):
    """What the bearers of one value of the roles claim may do."""

    value: str
    role: Role
    scopes: Annotated[tuple[ScopeText, ...], Listed] = ("*",)


class OidcSettings(Section):
    """Bearer tokens of an OpenID Connect issuer."""

    issuer: str | None = None
    audience: str | None = None
    jwks_url: str | None = None
    """None asks the issuer's discovery document."""
    algorithms: Annotated[tuple[str, ...], Listed] = ("RS256", "ES256")
    name_claim: str = "sub"
    roles_claim: str = "roles"
    grants: list[OidcGrant] = Field(default=[])

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.issuer and not self.audience:
            raise does_not_fit("an issuer needs an audience, or tokens for others would be taken")
        return self


class AuthSettings(Section):
    """Who may use the API."""

    enabled: bool = False
    """Turned on by an OIDC issuer too."""
    session_lifetime: Duration = Field(default=timedelta(hours=12), gt=timedelta(0))
    oidc: OidcSettings = OidcSettings()

    @property
    def is_on(self) -> bool:
        return self.enabled or self.oidc.issuer is not None


class StorageSettings(Section):
    """Object storage for the catalogs that do not say it themselves."""

    type: Literal["s3", "gcs"] = "s3"
    bucket: str | None = None
    region: str | None = None
    endpoint: str | None = None
    access_key_id: str | None = Field(default=None, repr=False)
    secret_access_key: str | None = Field(default=None, repr=False)
    path_style_access: bool | None = None


class SmallFilesSettings(Section):
    """Merging files below the threshold."""

    enabled: bool = True
    threshold: SomeBytes = _POLICY.small_file_threshold
    target_size: SomeBytes | None = None
    """Beats `compaction.target_file_size`."""


class DeleteFilesSettings(Section):
    """Applying deletes for good where they weigh more than the threshold."""

    enabled: bool = True
    fragment_ratio_threshold: float = Field(default=_POLICY.fragment_ratio_threshold, ge=0)


class TimeSeriesSettings(Section):
    """Leaving partitions that are still written to alone."""

    enabled: bool | None = None
    """None follows `small_files`."""
    open_partition_grace: Duration = _POLICY.open_partition_grace


class StrategySettings(Section):
    """What compaction looks for; one that is switched off is off for every table."""

    small_files: SmallFilesSettings = SmallFilesSettings()
    delete_files: DeleteFilesSettings = DeleteFilesSettings()
    time_series: TimeSeriesSettings = TimeSeriesSettings()


class CompactionSettings(Section):
    """How files are rewritten."""

    target_file_size: SomeBytes = _POLICY.target_file_size
    max_parallelism: int | None = Field(default=None, ge=1)
    strategies: StrategySettings = StrategySettings()


class SchedulerSettings(Section):
    """When tables without a schedule of their own are looked after."""

    enabled: bool = True
    default_schedule: CronLine = DEFAULT_LINE
    timezone: ZoneName = "UTC"
    jitter: Duration = timedelta(0)
    catch_up: Duration = DEFAULT_CATCH_UP


class OrchestratorSettings(Section):
    """How recommendations become jobs, fleet-wide."""

    interval: Duration = timedelta(minutes=5)
    concurrency: int = Field(default=4, ge=1)
    shadow: bool = False
    retry_after: Duration = timedelta(hours=6)
    dollars_per_point: Price = 0.01


class HealthSyncSettings(Section):
    """How the table cache is kept up to date."""

    interval: Duration = timedelta(minutes=5)
    refresh_after: Duration = timedelta(days=1)
    parallelism: int = Field(default=4, ge=1)


class CostSettings(Section):
    """Prices and rates of the cost model."""

    get_dollars_per_1000: Price = _COST.get_dollars_per_1000
    put_dollars_per_1000: Price = _COST.put_dollars_per_1000
    compute_dollars_per_gb_second: Price = _COST.compute_dollars_per_gb_second
    memory_gb: float = Field(default=_COST.memory_gb, gt=0)
    rewrite_bytes_per_core_second: SomeBytes = int(_COST.rewrite_bytes_per_core_second)
    parallelism: int = Field(default=_COST.parallelism, ge=1)
    startup_seconds: Price = _COST.startup_seconds


class SparkSettings(Section):
    """How Spark is started."""

    master: str = "local[*]"
    driver_memory: str = "2g"
    conf: Properties = Field(default={})
    jars: Path | None = None
    """A folder with Iceberg's runtime, for sites without a network."""
    ivy_settings: Path | None = None
    java_home: Path | None = None


class StateSettings(Section):
    """Where jobs, locks and the history are kept."""

    url: str | None = Field(default=None, repr=False)


class WorkerSettings(Section):
    """How workers hold jobs, and when a job that failed is tried again."""

    lease: Duration = Field(default=timedelta(seconds=60), ge=timedelta(seconds=1))
    poll: Duration = timedelta(seconds=5)
    max_attempts: int = Field(default=DEFAULT_MAX_ATTEMPTS, ge=1)
    retry_delay: Duration = timedelta(seconds=30)


class RetrySettings(Section):
    """How often, and after what pause, a commit that lost to another writer is tried again."""

    max_attempts: int = Field(default=5, ge=1)
    base_delay: Duration = timedelta(seconds=1)
