"""CompactionConfig: everything that can be configured."""

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
    """The merged configuration; it reads no environment by itself, see `load_config`."""

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
    catalog: Properties = {}
    """The catalog named `default`."""
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
    def _no_table_asks_for_what_is_off(self) -> Self:
        on = self.strategies_on
        for path, strategy in self._strategies_asked_for():
            if strategy is not None and strategy not in on:
                raise PydanticCustomError(
                    "switched_off",
                    "asks for {strategy}, which is off",
                    {"path": path, "strategy": strategy.value},
                )
        return self

    def _strategies_asked_for(self) -> Iterator[tuple[KeyPath, Strategy | None]]:
        yield ("policy", "strategy"), self.policy.strategy
        for index, entry in enumerate(self.policies):
            yield ("policies", index, "strategy"), entry.strategy
        for index, table in enumerate(self.tables):
            yield ("tables", index, "strategy"), table.strategy
            yield ("tables", index, "options", "strategy"), table.options.strategy

    @property
    def strategies_on(self) -> frozenset[Strategy]:
        """What compaction may look for."""
        settings = self.compaction.strategies
        follows = settings.time_series.enabled is None
        switches = {
            Strategy.SMALL_FILES: settings.small_files.enabled,
            Strategy.DELETE_FILES: settings.delete_files.enabled,
            Strategy.TIME_SERIES: settings.small_files.enabled if follows else settings.time_series.enabled,
        }
        return frozenset(strategy for strategy, is_on in switches.items() if is_on)

    @property
    def secrets(self) -> frozenset[str]:
        """Values that telling variables put into the file, to be hidden wherever they show up."""
        return self._secrets

    def knowing(self, secrets: frozenset[str]) -> Self:
        """The same configuration, aware of these secrets."""
        copy = self.model_copy()
        copy._secrets = secrets
        return copy

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Nothing: a configuration that is printed by accident gives no secret away."""
        yield from ()
