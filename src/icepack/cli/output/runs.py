"""Running with a progress bar, and showing what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event
from typing import Any

from icepack.cli.console import change, console, grid, print_json, row, say, score_change, short_names
from icepack.cli.context import Failures
from icepack.cli.output import render
from icepack.domain.actions import Action, Compact, ExpireSnapshots, RemoveOrphanFiles, action_to_json
from icepack.domain.ports.engine import Progress, ProgressSink, no_progress
from icepack.domain.recommendation.recommend import RecommendedAction
from icepack.domain.run import Proof, RunRecord, RunState, Totals
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.units import format_duration, format_size
from icepack.domain.verification import ValueProof
from icepack.service.service import Advice, CompactionService, MaintainStep

MARKS = {RunState.SUCCEEDED: "✓", RunState.CANCELLED: "–", RunState.REFUSED: "!"}

MOST_DIFFERENCES = 20


class Bar:
    """A rich progress bar, or nothing where there is no terminal."""

    def __init__(self, bar: Any | None, total: int) -> None:
        self._bar = bar
        self._task = bar.add_task("", total=total) if bar is not None else None
        self._done = 0

    def tell(self, text: str) -> ProgressSink:
        """A sink that shows this text and how far the current action is."""
        bar = self._bar
        if bar is None:
            return no_progress
        bar.update(self._task, description=text, completed=self._done)

        def sink(progress: Progress) -> None:
            within = progress.done / progress.total if progress.total else 0
            bar.update(self._task, completed=self._done + min(within, 0.95))

        return sink

    def step(self) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done)


@contextmanager
def progress_bar(output: str, total: int = 1) -> Iterator[Bar]:
    if output == "json" or not console().is_terminal:
        yield Bar(None, total)
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    columns = (BarColumn(30), TextColumn("{task.completed:.0f}/{task.total}"), TimeElapsedColumn())
    text = TextColumn("{task.description}", markup=False)
    with RichProgress(*columns, text, console=console(), transient=True) as bar:
        yield Bar(bar, total)


def maintain_with_bar(
    service: CompactionService,
    busy: Sequence[Advice],
    cancel: Event,
    output: str,
    settings: Mapping[str, Any] | None = None,
) -> list[MaintainStep]:
    """Runs what is recommended; the bar counts the actions of the plan that was shown."""
    names = short_names(item.status.table for item in busy)
    planned = sum(len(item.recommendation.actions) for item in busy)
    steps: list[MaintainStep] = []
    with progress_bar(output, planned) as bar:
        current: list[ProgressSink] = []

        def starting(table: TableId, recommended: RecommendedAction) -> None:
            current[:] = [bar.tell(f"{names[table]}: {recommended.kind}")]

        def progress(told: Progress) -> None:
            if current:
                current[0](told)

        steps_made = service.maintain(
            list(names), progress=progress, cancel=cancel, on_start=starting, settings=settings
        )
        for step in steps_made:
            steps.append(step)
            bar.step()
            if output == "table":
                _show_step(step, names)
    return steps


def _show_step(step: MaintainStep, names: dict[TableId, str]) -> None:
    if step.record is None:
        say(f"✗ {names[step.table]}: {step.error}")
        return
    record = step.record
    mark = _mark(record)
    took = format_duration(record.realised_seconds)
    said = "refused: " if record.state is RunState.REFUSED else ""
    say(f"{mark} {names[step.table]}: {record.kind} — {said}{render.outcome(record)} ({took})")
    show_assumptions(record.details or {})


def show_assumptions(details: Mapping[str, Any]) -> None:
    """What an orphan removal took for granted of tables that could not be read."""
    for item in details.get("assumed_locations", ()):
        say(f"    assumed: {item['sentence']}")


def _mark(record: RunRecord) -> str:
    """A success with a mismatch is not to be overlooked."""
    has_mismatch = record.value_proof is not None and record.value_proof.mismatch is not None
    return "!" if has_mismatch and record.state is RunState.SUCCEEDED else MARKS.get(record.state, "✗")


def show_steps(steps: Sequence[MaintainStep]) -> None:
    """Before → after per table, then what failed, and what a guard rail refused."""
    print_before_after([step.record for step in steps if step.record is not None])
    failed = [step for step in steps if step.error or (step.record and step.record.state not in MARKS)]
    refused = [step for step in steps if step.record and step.record.state is RunState.REFUSED]
    for some, word, mark in ((failed, "failed", "✗"), (refused, "refused", "!")):
        if some:
            say(f"{len(some)} of {len(steps)} {word}:")
            _list_steps(some, mark)


def _list_steps(steps: Sequence[MaintainStep], mark: str) -> None:
    for step in steps:
        kind = f" {step.record.kind}" if step.record else ""
        say(f"  {mark} {step.table}{kind}: {step.error or (step.record.message if step.record else '')}")


def print_before_after(records: Sequence[RunRecord], title: str | None = None) -> None:
    spans = before_and_after(records)
    if not spans:
        return
    numbers = ("files", "average", "deletes", "snapshots", "manifests", "size", "score")
    table = grid("table", *numbers, title=title, numbers=numbers)
    names = short_names(spans)
    for name, (before, after) in spans.items():
        row(table, names[name], *_changes(before, after), score_change(before.score, after.score))
    console().print(table)


def before_and_after(records: Sequence[RunRecord]) -> dict[TableId, tuple[Totals, Totals]]:
    """The first `before` and the last `after` that is known of each table."""
    spans: dict[TableId, tuple[Totals, Totals]] = {}
    for record in records:
        if record.before is None:
            continue
        first = spans[record.table][0] if record.table in spans else record.before
        spans[record.table] = (first, record.after or record.before)
    return spans


def _changes(before: Totals, after: Totals) -> tuple[str, ...]:
    return (
        change(f"{before.data_files:,}", f"{after.data_files:,}"),
        change(format_size(before.average_bytes), format_size(after.average_bytes)),
        change(f"{before.delete_files:,}", f"{after.delete_files:,}"),
        change(f"{before.snapshots:,}", f"{after.snapshots:,}"),
        change(f"{before.manifests:,}", f"{after.manifests:,}"),
        change(format_size(before.bytes), format_size(after.bytes)),
    )


def maintenance_json(planned: Sequence[Advice], steps: Sequence[MaintainStep], unreadable: Failures) -> dict[str, Any]:
    """One shape, whether it ran or not."""
    spans = before_and_after([step.record for step in steps if step.record is not None])
    return {
        "plan": [
            {
                "table": str(item.status.table),
                "actions": [action_to_json(recommended.action) for recommended in item.recommendation.actions],
            }
            for item in planned
        ],
        "steps": [
            {"table": str(step.table), "run": to_json(step.record) if step.record else None, "error": step.error}
            for step in steps
        ],
        "tables": [
            {"table": str(table), "before": to_json(before), "after": to_json(after)}
            for table, (before, after) in spans.items()
        ],
        **render.failures_json(unreadable),
    }


def state_code(state: RunState) -> int:
    return {RunState.SUCCEEDED: 0, RunState.CANCELLED: 130}.get(state, 1)


def exit_code(steps: Sequence[MaintainStep], *, strict: bool = False) -> int:
    """Of many actions: one that a guard rail refused is listed, and a failure only where `strict` says so."""
    states = [step.record.state if step.record else RunState.FAILED for step in steps]
    counted = [state for state in states if strict or state is not RunState.REFUSED]
    codes = [state_code(state) for state in counted]
    return 130 if 130 in codes else max(codes, default=0)


def show_record(record: RunRecord) -> None:
    _show_step(MaintainStep(table=record.table, record=record), short_names([record.table]))
    for proof in record.proofs:
        say(f"  proof: {proof_line(proof)}")
    if record.value_proof is not None:
        for line in value_proof_lines(record.value_proof):
            say(f"  {line}")
    print_before_after([record])


def proof_line(proof: Proof) -> str:
    verdict = "equal" if proof.holds else "DIFFERENT"
    return f"{proof.method}, {proof.rows_before:,} before and {proof.rows_after:,} after: {verdict}"


def value_proof_lines(proof: ValueProof) -> Iterator[str]:
    """What was compared and why, what differed, and which groups failed natively."""
    if proof.rows_compared:
        why = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in sorted(proof.reasons.items()))
        yield f"values: {proof.rows_compared:,} rows compared" + (f" ({why})" if why else "")
    for failure in proof.failures:
        where = f" of {failure.partition}" if failure.partition else ""
        yield f"native rewrite{where} failed, Spark's procedure did it: {failure.error}"
    if proof.mismatch is not None:
        for difference in proof.mismatch.differences[:MOST_DIFFERENCES]:
            where = f" in {difference.file}" if difference.file else ""
            yield (
                f"different: {difference.column or 'rows'} {difference.measure}{where}: "
                f"{difference.before} before, {difference.after} after"
            )


def dry_run(service: CompactionService, table: TableId, action: Action, output: str) -> int:
    """What the action would do; only the orphan search needs Spark for that."""
    match action:
        case Compact():
            plan = service.plan(table, action)
            shown, tell = render.plan_json(plan, with_files=False), partial(render.show_compaction, plan)
        case ExpireSnapshots():
            preview = service.preview_expiry(table, action)
            shown, tell = to_json(preview), partial(render.show_expiry, preview)
        case RemoveOrphanFiles():
            record = service.run(table, replace(action, dry_run=True))
            if record.state is not RunState.SUCCEEDED:
                show_record(record)
                return 1
            shown = record.details or {}
            tell = partial(_show_orphans, shown)
        case _:
            shown, tell = {}, partial(say, f"{action.kind} has nothing to preview; its parameters are exact.")
    if output == "json":
        print_json({"table": str(table), "action": action_to_json(action), "preview": shown})
    else:
        tell()
    return 0


def _show_orphans(found: Mapping[str, Any]) -> None:
    show_assumptions(found)
    for path in found.get("would_delete", ()):
        say(path)
    say(f"{found.get('would_delete_count', 0):,} orphans would be deleted.")
