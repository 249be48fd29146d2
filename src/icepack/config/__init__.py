"""Configuration: read once, checked at once, handed down as plain values."""

from icepack.config.derive import (
    added_rules,
    added_schedules,
    base_policy,
    catalog_properties,
    cost_model,
    named_tables,
    policy_rules,
    scheduler_zone,
    timetable,
)
from icepack.config.display import known_secrets, masked
from icepack.config.folders import EmbeddedLake, user_folder
from icepack.config.load import LoadedConfig, load_config
from icepack.config.secrets import hide
from icepack.config.settings import CompactionConfig
from icepack.config.starter_file import write_starter

__all__ = [
    "CompactionConfig",
    "EmbeddedLake",
    "LoadedConfig",
    "added_rules",
    "added_schedules",
    "base_policy",
    "catalog_properties",
    "cost_model",
    "hide",
    "known_secrets",
    "load_config",
    "masked",
    "named_tables",
    "policy_rules",
    "scheduler_zone",
    "timetable",
    "user_folder",
    "write_starter",
]
