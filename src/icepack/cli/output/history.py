"""Prints past runs."""

from __future__ import annotations

from collections.abc import Sequence

from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.domain.units import format_duration, format_size


def show_history(runs: Sequence[RunRecord], output: str) -> None:
    if output == "json":
        print_json({"runs": [to_json(run) for run in runs]})
        return
    if not runs:
        print_text("No runs yet.")
        return
    numbers = ("duration", "estimate")
    table = create_table("started (UTC)", "table", "action", "state", "result", *numbers, numbers=numbers)
    for run in runs:
        add_row(
            table,
            f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            str(run.table),
            run.kind.value,
            run.state.value,
            describe_result(run),
            format_duration(run.realised_seconds),
            format_duration(run.estimate.duration_seconds) if run.estimate else "",
        )
    console().print(table)


def describe_result(run: RunRecord) -> str:
    """Describes in one line what a run changed, or why it failed."""
    if run.state is RunState.RUNNING:
        return "running, or interrupted before its result was recorded"
    parts = [*_describe_effect(run)]
    if run.value_proof is not None and run.value_proof.total:
        parts.append(run.value_proof.sentence)
    if run.message:
        parts.append(run.message)
    return "; ".join(parts) or "nothing to do"


def _describe_effect(run: RunRecord) -> list[str]:
    effect = run.effect
    parts = []
    if effect.files_rewritten:
        parts.append(
            f"{effect.files_rewritten:,} → {effect.files_added:,} files ({format_size(effect.bytes_rewritten)})"
        )
    if effect.delete_files_removed:
        parts.append(f"{effect.delete_files_removed:,} delete files removed")
    if effect.manifests_after < effect.manifests_before:
        parts.append(f"{effect.manifests_before:,} → {effect.manifests_after:,} manifests")
    if effect.snapshots_removed:
        parts.append(f"{effect.snapshots_removed:,} snapshots expired")
    if effect.files_deleted:
        parts.append(f"{effect.files_deleted:,} files deleted ({format_size(effect.bytes_deleted)})")
    return parts
