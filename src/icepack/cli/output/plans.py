"""Prints the dry run of compaction and snapshot expiry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import ReadFailures
from icepack.cli.output.failures import failures_json, show_failures
from icepack.cli.output.recommendations import describe_lambda_advice, print_recommendations
from icepack.domain.ports.catalog import ExpiryPreview
from icepack.domain.serialization import to_json
from icepack.domain.units import format_duration, format_size
from icepack.service.advice import TablePlan

MAX_GROUPS_SHOWN = 30


def show_plans(plans: Sequence[TablePlan], failures: ReadFailures, output: str, *, with_files: bool) -> None:
    if output == "json":
        documents = [
            {
                "table": str(item.advice.status.table),
                "recommendation": to_json(item.advice.recommendation),
                "compaction": plan_json(item, with_files=with_files),
                "expiry": to_json(item.expiry) if item.expiry else None,
            }
            for item in plans
        ]
        print_json({"plans": documents, **failures_json(failures)})
        return
    for item in plans:
        _show_plan(item, with_files)
    show_failures(failures)


def plan_json(item: TablePlan, *, with_files: bool) -> dict[str, Any]:
    plan: dict[str, Any] = to_json(item.compaction)
    if not with_files:
        plan["groups"] = [{key: value for key, value in group.items() if key != "paths"} for group in plan["groups"]]
    return plan


def _show_plan(item: TablePlan, with_files: bool) -> None:
    print_recommendations([item.advice], title=str(item.advice.status.table))
    show_compaction(item, with_files=with_files)
    if item.expiry is not None:
        show_expiry(item.expiry)
    print_text()


def show_compaction(item: TablePlan, *, with_files: bool = False) -> None:
    plan = item.compaction
    if plan.groups:
        print_text(
            f"Compaction ({plan.strategy}, estimated: Spark's procedure plans again): {plan.files_in:,} files, "
            f"{format_size(plan.bytes_in)} → {plan.files_out:,} files of up to {format_size(plan.target_file_bytes)}; "
            f"about {format_duration(plan.cost.duration_seconds)}, ${plan.cost.dollars:.4f}."
        )
        _show_groups(item, with_files)
        lambda_advice = plan.lambda_advice(item.advice.status.time_since_compaction)
        if lambda_advice is not None:
            print_text(describe_lambda_advice(lambda_advice))
    else:
        print_text("Compaction: no files to rewrite.")
    for key in plan.skipped_open:
        print_text(f"Skipped, still being written: {key.path}")


def show_expiry(preview: ExpiryPreview) -> None:
    print_text(
        f"Snapshot expiry: {len(preview.snapshot_ids):,} snapshots, and {preview.data_files:,} data files, "
        f"{preview.delete_files:,} delete files, {preview.manifests:,} manifests and {preview.manifest_lists:,} "
        f"manifest lists that only these snapshots reference ({format_size(preview.bytes)})."
    )


def _show_groups(item: TablePlan, with_files: bool) -> None:
    numbers = ("#", "files", "delete files", "size", "files out", "est. time")
    table = create_table("#", "partition", *numbers[1:], numbers=numbers)
    groups = item.compaction.groups
    for position, group in enumerate(groups[:MAX_GROUPS_SHOWN], 1):
        add_row(
            table,
            position,
            group.partition.path or "(all)",
            f"{group.files:,}",
            f"{group.delete_files:,}",
            format_size(group.bytes),
            f"{group.files_out:,}",
            format_duration(group.cost.duration_seconds),
        )
    console().print(table)
    if len(groups) > MAX_GROUPS_SHOWN:
        print_text(f"… and {len(groups) - MAX_GROUPS_SHOWN:,} more groups (--format json lists all).")
    if with_files:
        for position, group in enumerate(groups, 1):
            for path in group.paths:
                print_text(f"{position}\t{path}")
