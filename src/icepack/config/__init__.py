"""Configuration: loaded once, validated as a whole, and passed on as plain values."""

from icepack.config.display import collect_secrets, mask_config
from icepack.config.domain_settings import (
    build_base_policy,
    build_catalog_properties,
    build_cost_model,
    build_policy_rules,
    build_timetable,
    list_named_tables,
    parse_policy_overrides,
    parse_schedule_overrides,
    scheduler_timezone,
)
from icepack.config.folders import EmbeddedLake, user_folder
from icepack.config.load import LoadedConfig, load_config
from icepack.config.secrets import mask_secrets
from icepack.config.settings import CompactionConfig
from icepack.config.starter_file import write_starter_file

__all__ = [
    "CompactionConfig",
    "EmbeddedLake",
    "LoadedConfig",
    "build_base_policy",
    "build_catalog_properties",
    "build_cost_model",
    "build_policy_rules",
    "build_timetable",
    "collect_secrets",
    "list_named_tables",
    "load_config",
    "mask_config",
    "mask_secrets",
    "parse_policy_overrides",
    "parse_schedule_overrides",
    "scheduler_timezone",
    "user_folder",
    "write_starter_file",
]
