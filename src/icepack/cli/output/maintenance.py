"""Runs the recommended actions of many tables with a progress bar, and prints the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event
from typing import Any

from icepack.cli.console import print_text, short_names
from icepack.cli.context import ReadFailures
from icepack.cli.exit_codes import INTERRUPTED, SUCCEEDED
from icepack.cli.output.failures import failures_json
from icepack.cli.output.progress import progress_bar
from icepack.cli.output.runs import (
    FAILURE_MARK,
    MARKS,
    before_and_after,
    exit_code_of,
    print_before_after,
    print_run,
)
from icepack.domain.actions import action_to_json
from icepack.domain.ports.engine import Progress, ProgressSink
from icepack.domain.recommendation import RecommendedAction
from icepack.domain.run import RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.service.advice import Advice
from icepack.service.service import CompactionService, MaintainStep


def run_maintenance(
    service: CompactionService,
    advice: Sequence[Advice],
    cancel: Event,
    output: str,
    settings: Mapping[str, Any] | None = None,
) -> list[MaintainStep]:
    """Runs what is recommended; the progress bar counts the actions of the plan that was shown."""
    names = short_names(item.status.table for item in advice)
    planned = sum(len(item.recommendation.actions) for item in advice)
    steps: list[MaintainStep] = []
    with progress_bar(output, planned) as bar:
        current: list[ProgressSink] = []

        def start(table: TableId, recommended: RecommendedAction) -> None:
            current[:] = [bar.start_action(f"{names[table]}: {recommended.kind}")]

        def report(progress: Progress) -> None:
            if current:
                current[0](progress)

        for step in service.maintain(list(names), progress=report, cancel=cancel, on_start=start, settings=settings):
            steps.append(step)
            bar.finish_action()
            if output == "table":
                _print_step(step, names)
    return steps


def _print_step(step: MaintainStep, names: dict[TableId, str]) -> None:
    if step.record is None:
        print_text(f"{FAILURE_MARK} {names[step.table]}: {step.error}")
    else:
        print_run(step.record, names[step.table])


def show_steps(steps: Sequence[MaintainStep]) -> None:
    """Prints each table before and after, then the failed and the refused actions."""
    print_before_after([step.record for step in steps if step.record is not None])
    failed = [step for step in steps if step.error or (step.record and step.record.state not in MARKS)]
    refused = [step for step in steps if step.record and step.record.state is RunState.REFUSED]
    for selected, label, mark in ((failed, "failed", FAILURE_MARK), (refused, "refused", MARKS[RunState.REFUSED])):
        if selected:
            print_text(f"{len(selected)} of {len(steps)} {label}:")
            _list_steps(selected, mark)


def _list_steps(steps: Sequence[MaintainStep], mark: str) -> None:
    for step in steps:
        kind = f" {step.record.kind}" if step.record else ""
        print_text(f"  {mark} {step.table}{kind}: {step.error or (step.record.message if step.record else '')}")


def maintenance_json(advice: Sequence[Advice], steps: Sequence[MaintainStep], failures: ReadFailures) -> dict[str, Any]:
    """Returns the same JSON shape for a dry run and for a real one."""
    totals = before_and_after([step.record for step in steps if step.record is not None])
    return {
        "plan": [
            {
                "table": str(item.status.table),
                "actions": [action_to_json(recommended.action) for recommended in item.recommendation.actions],
            }
            for item in advice
        ],
        "steps": [
            {"table": str(step.table), "run": to_json(step.record) if step.record else None, "error": step.error}
            for step in steps
        ],
        "tables": [
            {"table": str(table), "before": to_json(before), "after": to_json(after)}
            for table, (before, after) in totals.items()
        ],
        **failures_json(failures),
    }


def maintenance_exit_code(steps: Sequence[MaintainStep], *, strict: bool = False) -> int:
    """Returns the exit code of many actions; a refused action counts as a failure only if `strict`."""
    states = [step.record.state if step.record else RunState.FAILED for step in steps]
    codes = [exit_code_of(state) for state in states if strict or state is not RunState.REFUSED]
    return INTERRUPTED if INTERRUPTED in codes else max(codes, default=SUCCEEDED)
