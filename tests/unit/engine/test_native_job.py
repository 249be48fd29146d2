from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from icepack.engine.native import job
from icepack.kernel.executor import CountsAccumulatorParam


def test_counts_by_key_add_up_and_start_empty() -> None:
    param = CountsAccumulatorParam()
    total = param.addInPlace(param.addInPlace({}, {1: 1}), {1: 1, 2: 1})
    assert total == {1: 2, 2: 1}
    assert param.zero(total) == {}


def test_a_spark_version_that_does_not_report_running_tasks_is_supported() -> None:
    context: Any = SimpleNamespace()
    assert job._running_tasks(context, "tag") == []
