"""Schedules, windows, budgets and time zones in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from icepack.config import (
    CompactionConfig,
    build_base_policy,
    build_policy_rules,
    build_timetable,
    list_named_tables,
    load_config,
    mask_config,
    scheduler_timezone,
)
from icepack.domain.actions import Strategy
from icepack.domain.policy import resolve_policy
from icepack.domain.scheduling.windows import Window
from icepack.domain.table import TableId
from icepack.errors import ConfigError

ORDERS = TableId("lake", ("sales",), "orders")
Load = Callable[..., CompactionConfig]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def read(text: str, **environ: str) -> CompactionConfig:
        file = tmp_path / "icepack.yaml"
        file.write_text(text)
        return load_config(file, environ={"HOME": str(tmp_path), **environ}, cwd=tmp_path).config

    return read


def test_by_default_every_table_is_maintained_every_six_hours(load: Load) -> None:
    found = build_timetable(load(""))
    assert found.entry_for(ORDERS).cron == "0 */6 * * *"
    assert found.entry_for(ORDERS).compaction is None
    assert (found.zone, found.jitter, found.catch_up) == (UTC, timedelta(0), timedelta(hours=1))


def test_schedules_of_tables_and_globs(load: Load) -> None:
    config = load(
        """
scheduler: {default_schedule: "0 1 * * *", timezone: Europe/Berlin, jitter: 5m, catch_up: 2h}
tables:
  - {name: sales.*, schedule: "0 2 * * *", options: {snapshot_retention: 3d}}
  - name: sales.orders
    schedule: "*/30 * * * *"
    strategy: time-series
    options: {target_file_size: 512MB, partition_filter: date >= current_date - 7, snapshot_retention: 5d}
  - {name: ops.log, strategy: small_files}
"""
    )
    found = build_timetable(config)
    orders = found.entry_for(ORDERS)
    assert orders.cron == "*/30 * * * *"
    assert orders.compaction == {
        "strategy": Strategy.TIME_SERIES,
        "target_file_bytes": 512 * 1024**2,
        "partition_filter": "date >= current_date - 7",
    }
    others = found.entry_for(TableId("lake", ("sales",), "items"))
    assert (others.cron, others.compaction) == ("0 2 * * *", None)
    log = found.entry_for(TableId("lake", ("ops",), "log"))
    assert (log.cron, log.compaction) == ("0 1 * * *", None)
    assert (scheduler_timezone(config), found.jitter) == (ZoneInfo("Europe/Berlin"), timedelta(minutes=5))
    assert [pattern.text for pattern in list_named_tables(config)] == ["sales.orders", "ops.log"]


def policy(config: CompactionConfig, **properties: str) -> Any:
    return resolve_policy(build_base_policy(config), build_policy_rules(config), ORDERS, properties)


def test_windows_and_budgets_are_layered_like_every_other_policy(load: Load) -> None:
    config = load(
        """
policy: {windows: [22:00-06:00], daily_budget: 10, daily_compute: 5h}
policies:
  - {match: sales.*, windows: "mon,tue 01:00-02:00; sat 00:00-24:00", daily_budget: none}
"""
    )
    assert build_base_policy(config).windows == (Window.parse("22:00-06:00"),)
    assert [str(window) for window in policy(config).windows] == ["sat 00:00-24:00", "mon,tue 01:00-02:00"]
    assert (policy(config).daily_budget, policy(config).daily_compute) == (None, timedelta(hours=5))
    own = policy(config, **{"icepack.windows": "03:00-04:00", "icepack.daily-budget": "0.5"})
    assert (own.windows, own.daily_budget) == ((Window.parse("03:00-04:00"),), 0.5)


def test_windows_can_be_removed_again(load: Load) -> None:
    config = load("policy: {windows: 22:00-06:00}\npolicies: [{match: sales.orders, windows: []}]")
    assert policy(config).windows == ()
    assert policy(config, **{"icepack.windows": ""}).windows == ()


def test_a_window_from_a_variable(load: Load) -> None:
    config = load("", ICEPACK_POLICY__WINDOWS="mon,fri 22:00-06:00; sun 1:00-2:00")
    assert [str(window) for window in build_base_policy(config).windows] == ["sun 01:00-02:00", "mon,fri 22:00-06:00"]


def test_the_shown_configuration_has_windows_as_written(load: Load) -> None:
    shown = mask_config(load("policy: {windows: 'sat,sun 22:00-6:00', daily_compute: 90m}"))
    assert shown["policy"]["windows"] == ["sat,sun 22:00-06:00"]
    assert shown["policy"]["daily_compute"] == "90m"
    assert shown["policy"]["daily_budget"] is None
    assert shown["scheduler"]["timezone"] == "UTC"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("policy: {windows: at night}", "policy.windows is invalid: 'at night' is not a window"),
        ("policy: {windows: 22:00-22:00}", "policy.windows is invalid: '22:00-22:00' is empty"),
        ("policy: {daily_budget: -1}", "policy.daily_budget is invalid: '-1.0' is less than the minimum of 0"),
        ("policy: {daily_compute: 5}", "policy.daily_compute should be a duration"),
        ("scheduler: {timezone: Mars/Olympus}", "scheduler.timezone should be a time zone such as UTC"),
        ("scheduler: {timezone: Europe}", "scheduler.timezone should be a time zone such as UTC"),
        ("scheduler: {timezone: ../etc}", "scheduler.timezone should be a time zone such as UTC"),
        ("orchestrator: {concurrency: 0}", "orchestrator.concurrency should be at least 1"),
    ],
)
def test_an_error_message_is_one_sentence(load: Load, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as mistake:
        load(text)
    assert sentence in str(mistake.value)
