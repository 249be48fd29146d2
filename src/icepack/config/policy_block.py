"""The settings of a policy, as they are written in a file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
)

from icepack.config.types import (
    CommaSeparated,
    CronLine,
    Duration,
    EmptyAsNone,
    FilterText,
    PatternText,
    SettingsSection,
    Size,
    WindowTexts,
    invalid_value_error,
)
from icepack.domain.actions import ActionKind, Layout, RewriteEngine, Strategy
from icepack.domain.policy import POLICY_KEYS, Policy, read_policy_values
from icepack.domain.verification import ProofLevel
from icepack.errors import ConfigError

_DEFAULT = Policy()


class PolicyBlock(SettingsSection):
    """Any settings of a policy; a setting that is not given leaves the policy unchanged."""

    enabled: bool = _DEFAULT.enabled
    actions: Annotated[tuple[ActionKind, ...], CommaSeparated] = _DEFAULT.actions
    strategy: Annotated[Strategy | None, EmptyAsNone] = _DEFAULT.strategy
    layout: Layout = _DEFAULT.layout
    columns: Annotated[tuple[str, ...], CommaSeparated] = _DEFAULT.columns
    target_file_size: Size = _DEFAULT.target_file_size
    small_file_threshold: Size = _DEFAULT.small_file_threshold
    max_files_per_partition: int = _DEFAULT.max_files_per_partition
    min_input_files: int = _DEFAULT.min_input_files
    fragment_ratio_threshold: float = _DEFAULT.fragment_ratio_threshold
    engine: RewriteEngine = _DEFAULT.engine
    proof: ProofLevel = _DEFAULT.proof
    partial_progress: bool = _DEFAULT.partial_progress
    partition_filter: FilterText = _DEFAULT.partition_filter
    open_partition_grace: Duration = _DEFAULT.open_partition_grace
    snapshot_retention: Duration = _DEFAULT.snapshot_retention
    min_snapshots_to_keep: int = _DEFAULT.min_snapshots_to_keep
    orphan_retention: Duration = _DEFAULT.orphan_retention
    orphan_interval: Duration = _DEFAULT.orphan_interval
    max_orphan_files: int = _DEFAULT.max_orphan_files
    max_orphan_share: float = _DEFAULT.max_orphan_share
    repeat_after: Duration = _DEFAULT.repeat_after
    max_cost: Annotated[float | None, EmptyAsNone] = _DEFAULT.max_cost
    scans_per_day: float = _DEFAULT.scans_per_day
    windows: WindowTexts = ()
    daily_budget: Annotated[float | None, EmptyAsNone] = _DEFAULT.daily_budget
    daily_compute: Annotated[Duration | None, EmptyAsNone] = _DEFAULT.daily_compute

    @field_validator("*", mode="after")
    @classmethod
    def _check_range(cls, value: Any, info: ValidationInfo) -> Any:
        if info.field_name in POLICY_KEYS:
            try:
                read_policy_values({info.field_name: value}, "policy")
            except ConfigError as exc:
                raise invalid_value_error(str(exc.__cause__)) from exc
        return value

    @model_serializer(mode="wrap")
    def _serialize_set_fields(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in serialize(self).items() if key in self.model_fields_set}

    def values(self) -> dict[str, Any]:
        """Returns the settings that were given, in the types of the policy."""
        return read_policy_values(self.model_dump(include=set(POLICY_KEYS)), "policy")


class PolicyEntry(PolicyBlock):
    """Settings for all tables that `match` selects."""

    match: PatternText


class TableEntry(SettingsSection):
    """One table, with its schedule and its own settings."""

    name: PatternText
    schedule: CronLine | None = None
    strategy: Annotated[Strategy | None, EmptyAsNone] = None
    options: PolicyBlock = PolicyBlock()

    def values(self) -> dict[str, Any]:
        """Returns the settings of the table, in the types of the policy."""
        strategy = {"strategy": self.strategy} if self.strategy else {}
        return self.options.values() | strategy
