"""CompactionConfig: all settings of icepack."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pydantic import PrivateAttr, model_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from icepack.config.policy_block import PolicyBlock, PolicyEntry, TableEntry
from icepack.config.sections import (
    AuthSettings,
    CompactionSettings,
    CostSettings,
    HealthSyncSettings,
    OrchestratorSettings,
    RetrySettings,
    SchedulerSettings,
    ServerSettings,
    SparkSettings,
    StateSettings,
    StorageSettings,
    WorkerSettings,
)
from icepack.config.types import Properties
from icepack.config.yaml_document import KeyPath
from icepack.domain.actions import Strategy

DEFAULT_CATALOG = "default"


class CompactionConfig(BaseSettings):
    """The merged configuration; `load_config` reads the environment, this class does not."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        env_prefix="ICEPACK_",
        env_nested_delimiter="__",
        env_ignore_empty=True,
    )

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    # The catalog named `default`.
    catalog: Properties = {}
    catalogs: dict[str, Properties] = {}
    storage: StorageSettings = StorageSettings()
    compaction: CompactionSettings = CompactionSettings()
    scheduler: SchedulerSettings = SchedulerSettings()
    orchestrator: OrchestratorSettings = OrchestratorSettings()
    health_sync: HealthSyncSettings = HealthSyncSettings()
    tables: list[TableEntry] = []
    policy: PolicyBlock = PolicyBlock()
    policies: list[PolicyEntry] = []
    cost: CostSettings = CostSettings()
    spark: SparkSettings = SparkSettings()
    state: StateSettings = StateSettings()
    retry: RetrySettings = RetrySettings()
    worker: WorkerSettings = WorkerSettings()

    _secrets: frozenset[str] = PrivateAttr(default=frozenset())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @model_validator(mode="after")
    def _reject_disabled_strategies(self) -> Self:
        enabled = self.enabled_strategies
        for path, strategy in self._configured_strategies():
            if strategy is not None and strategy not in enabled:
                raise PydanticCustomError(
                    "disabled_strategy",
                    "is {strategy}, which is disabled",
                    {"path": path, "strategy": strategy.value},
                )
        return self

    def _configured_strategies(self) -> Iterator[tuple[KeyPath, Strategy | None]]:
        yield ("policy", "strategy"), self.policy.strategy
        for index, entry in enumerate(self.policies):
            yield ("policies", index, "strategy"), entry.strategy
        for index, table in enumerate(self.tables):
            yield ("tables", index, "strategy"), table.strategy
            yield ("tables", index, "options", "strategy"), table.options.strategy

    @property
    def enabled_strategies(self) -> frozenset[Strategy]:
        """The strategies that compaction may use."""
        settings = self.compaction.strategies
        follows_small_files = settings.time_series.enabled is None
        flags = {
            Strategy.SMALL_FILES: settings.small_files.enabled,
            Strategy.DELETE_FILES: settings.delete_files.enabled,
            Strategy.TIME_SERIES: settings.small_files.enabled if follows_small_files else settings.time_series.enabled,
        }
        return frozenset(strategy for strategy, is_enabled in flags.items() if is_enabled)

    @property
    def secrets(self) -> frozenset[str]:
        """Values from variables whose names mark them as secret, to be masked in all output."""
        return self._secrets

    def with_secrets(self, secrets: frozenset[str]) -> Self:
        """Returns a copy that masks these secrets."""
        copy = self.model_copy()
        copy._secrets = secrets
        return copy

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Shows no values, so that printing a configuration by accident reveals no secret."""
        yield from ()
