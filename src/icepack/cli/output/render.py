"""What the reading commands print, as tables or as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

from icepack.cli.console import console, grid, print_json, row, say, score, short_names, show_errors
from icepack.cli.context import Failures
from icepack.domain.health import HealthReport
from icepack.domain.ports.engine import DiscoveredTables, ExpiryPreview
from icepack.domain.run import RunRecord, RunState, totals
from icepack.domain.serialization import to_json
from icepack.domain.status import PartitionStatus, TableStatus
from icepack.domain.table import TableId
from icepack.domain.units import format_duration, format_size
from icepack.domain.verification import NativeDisabled
from icepack.service.service import Advice, Assessment, TablePlan

Failed = Sequence[tuple[TableId, str]]
SHOWN_PARTITIONS = 15
SHOWN_GROUPS = 30


def table_json(table: TableId) -> dict[str, Any]:
    return {"table": str(table), "catalog": table.catalog, "namespace": list(table.namespace), "name": table.name}


def errors_json(failed: Failed) -> list[dict[str, str]]:
    return [{"table": str(table), "error": message} for table, message in failed]


def failures_json(failures: Failures) -> dict[str, Any]:
    return {"errors": errors_json(failures.tables), "silent_catalogs": dict(failures.silent_catalogs)}


def show_tables(found: DiscoveredTables, output: str) -> None:
    if output == "json":
        listed = [table_json(table) for table in found.tables]
        print_json({"tables": listed, "silent_catalogs": dict(found.silent_catalogs)})
        return
    for table in found.tables:
        say(str(table))
    if not found.tables:
        say("No tables.")
    show_failures(Failures(silent_catalogs=found.silent_catalogs))


def show_failures(failures: Failures) -> None:
    show_errors(failures.tables)
    for name, reason in failures.silent_catalogs.items():
        say(f"✗ catalog {name}: {reason}")


def show_status(assessment: Assessment, output: str) -> None:
    status = assessment.status
    if output == "json":
        print_json({"table": str(status.table), "status": to_json(status), "health": to_json(assessment.health)})
        return
    facts = grid("", "")
    facts.show_header = False
    for name, value in _facts(status):
        row(facts, name, value)
    console().print(facts)
    _show_histogram(status)
    _show_partitions(status)
    show_issues(assessment.health)


def _facts(status: TableStatus) -> list[tuple[str, str]]:
    deletes, snapshots, manifests = status.deletes, status.snapshots, status.manifests
    return [
        ("table", str(status.table)),
        ("location", status.location),
        ("format", f"v{status.format_version}, snapshot {status.snapshot_id or 'none'}"),
        ("partitioned by", status.partition_spec or "nothing"),
        ("sorted by", status.sort_order or "nothing"),
        (
            "data files",
            f"{status.data.count:,} with {status.data.records:,} rows, {format_size(status.data.bytes)} "
            f"(average {format_size(status.data.average_bytes)}, target {format_size(status.target_file_bytes)})",
        ),
        (
            "delete files",
            f"{deletes.position.files:,} position, {deletes.equality.files:,} equality, "
            f"{deletes.vectors.files:,} vectors with {deletes.records:,} rows; {deletes.dangling_files:,} dangling",
        ),
        (
            "snapshots",
            f"{snapshots.count:,}, branches {', '.join(snapshots.branches) or 'none'}, "
            f"tags {', '.join(snapshots.tags) or 'none'}",
        ),
        (
            "manifests",
            f"{manifests.count:,}, {format_size(manifests.bytes)}, {manifests.average_entries:.1f} files each",
        ),
        ("metadata", f"{format_size(status.metadata.file_bytes)}, {status.metadata.log_length:,} earlier versions"),
        (
            "writers",
            f"{status.cadence.appends_per_hour:.1f} appends and "
            f"{status.cadence.row_changes_per_hour:.1f} row changes an hour, in the last day of writing",
        ),
        ("last compaction", str(status.last_compaction_at or "never")),
    ]


def _show_histogram(status: TableStatus) -> None:
    largest = max((bucket.count for bucket in status.data.histogram), default=0)
    if not largest:
        return
    chart = grid("file size", "files", "", numbers=("files",))
    for bucket in status.data.histogram:
        label = f"< {format_size(bucket.below_bytes)}" if bucket.below_bytes else "larger"
        row(chart, label, f"{bucket.count:,}", "█" * -(-bucket.count * 40 // largest))
    console().print(chart)


def _show_partitions(status: TableStatus) -> None:
    if not status.partition_spec:
        return
    worst = sorted(status.partitions, key=_badness, reverse=True)
    numbers = ("files", "small", "deletes", "size", "rows")
    table = grid("partition", *numbers, numbers=numbers)
    for partition in worst[:SHOWN_PARTITIONS]:
        row(
            table,
            partition.key.path or "(all)",
            f"{partition.data_files:,}",
            f"{partition.small_files:,}",
            f"{partition.delete_files:,}",
            format_size(partition.bytes),
            f"{partition.records:,}",
        )
    console().print(table)
    if len(worst) > SHOWN_PARTITIONS:
        say(f"… and {len(worst) - SHOWN_PARTITIONS:,} more partitions (--format json has them all).")


def _badness(partition: PartitionStatus) -> tuple[int, int]:
    return (partition.small_files + partition.delete_files, partition.data_files)


def show_issues(health: HealthReport) -> None:
    say(f"Score {health.score} of 100" + ("." if health.issues else ": nothing is wrong."))
    for issue in health.issues:
        say(f"  −{issue.penalty:<4g} {issue.code}: {issue.sentence}")


def show_health(
    seen: Sequence[Assessment],
    failed: Failures,
    output: str,
    *,
    off: Mapping[TableId, NativeDisabled],
    detailed: bool,
) -> None:
    """`off` has the tables whose native rewrite is switched off."""
    if output == "json":
        print_json({"tables": [_health_json(item, off) for item in seen], **failures_json(failed)})
        return
    print_health_table(seen)
    if detailed:
        show_issues(seen[0].health)
    for item in seen:
        if item.status.table in off:
            say(native_line(off[item.status.table]))
    show_failures(failed)


def _health_json(item: Assessment, off: Mapping[TableId, NativeDisabled]) -> dict[str, Any]:
    entry = off.get(item.status.table)
    return {
        "table": str(item.status.table),
        "health": to_json(item.health),
        "totals": to_json(totals(item.status, item.health.score)),
        "native_disabled": None if entry is None else to_json(entry),
    }


def native_line(entry: NativeDisabled) -> str:
    """That the native rewrite is off, since when and why, and the command that switches it on again."""
    return (
        f"The native rewrite is off for {entry.table} since {entry.disabled_at:%Y-%m-%d %H:%M} UTC: {entry.reason} "
        f"To switch it on again: icepack native enable {quote(str(entry.table))}"
    )


def print_health_table(seen: Sequence[Assessment], title: str | None = None) -> None:
    if not seen:
        say("No tables.")
        return
    numbers = ("score", "files", "average", "deletes", "snapshots", "size")
    table = grid("table", *numbers, "what is wrong", title=title, numbers=numbers)
    names = short_names(item.status.table for item in seen)
    for item in sorted(seen, key=lambda item: (item.health.score, item.status.table)):
        row(table, names[item.status.table], score(item.health.score), *_figures(item.status), _wrong(item.health))
    console().print(table)


def _figures(status: TableStatus) -> tuple[str, ...]:
    return (
        f"{status.data.count:,}",
        format_size(status.data.average_bytes),
        f"{status.deletes.files:,}",
        f"{status.snapshots.count:,}",
        format_size(status.data.bytes),
    )


def _wrong(health: HealthReport) -> str:
    return ", ".join(issue.code.replace("_", " ") for issue in health.issues) or "healthy"


def show_recommendations(seen: Sequence[Advice], failed: Failures, output: str, *, explain: bool) -> None:
    if output == "json":
        tables = [
            {
                "table": str(item.status.table),
                "score": item.health.score,
                "policy": to_json(item.policy),
                "recommendation": to_json(item.recommendation),
            }
            for item in seen
        ]
        print_json({"tables": tables, **failures_json(failed)})
        return
    print_recommendations(seen)
    if explain:
        for item in seen:
            _explain(item)
    show_failures(failed)


def print_recommendations(seen: Sequence[Advice], title: str | None = None) -> None:
    numbers = ("est. time", "est. cost", "conflict")
    table = grid("table", "action", "why", *numbers, title=title, numbers=numbers)
    names = short_names(item.status.table for item in seen)
    for item in seen:
        for recommended in item.recommendation.actions:
            row(
                table,
                names[item.status.table],
                recommended.kind.value,
                recommended.reason,
                format_duration(recommended.cost.duration_seconds),
                f"${recommended.cost.dollars:.4f}",
                f"{recommended.conflict_probability:.0%}",
            )
    if table.row_count:
        console().print(table)
    else:
        say("Nothing to do: every table is as its policy wants it.")


def _explain(item: Advice) -> None:
    say(f"\n{item.status.table}  (score {item.health.score})")
    for issue in item.health.issues:
        say(f"  wrong    {issue.sentence}")
    for recommended in item.recommendation.actions:
        say(f"  do       {recommended.kind}: {recommended.reason}")
        say(f"           parameters {_parameters(recommended.action)}")
        say(f"           expected (estimate) {_named(to_json(recommended.effect))}")
        say(f"           cost (estimate) {_named(to_json(recommended.cost))}")
        say(f"           chance of a commit conflict (estimate) {recommended.conflict_probability:.1%}")
    for skipped in item.recommendation.skipped:
        say(f"  leave    {skipped.kind}: {skipped.reason}")


def _parameters(action: Any) -> str:
    values = {key: value for key, value in to_json(action).items() if key not in ("kind", "partitions") and value}
    partitions = getattr(action, "partitions", ())
    if partitions:
        shown = ", ".join(selection.key.path for selection in partitions[:5])
        values["partitions"] = shown + (f" and {len(partitions) - 5} more" if len(partitions) > 5 else "")
    return _named(values)


def _named(values: dict[str, Any]) -> str:
    shown = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items() if value}
    return ", ".join(f"{key}={value}" for key, value in shown.items()) or "none"


def show_plans(seen: Sequence[TablePlan], failed: Failures, output: str, *, with_files: bool) -> None:
    if output == "json":
        plans = [
            {
                "table": str(item.advice.status.table),
                "recommendation": to_json(item.advice.recommendation),
                "compaction": plan_json(item, with_files=with_files),
                "expiry": to_json(item.expiry) if item.expiry else None,
            }
            for item in seen
        ]
        print_json({"plans": plans, **failures_json(failed)})
        return
    for item in seen:
        _show_plan(item, with_files)
    show_failures(failed)


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
    say()


def show_compaction(item: TablePlan, *, with_files: bool = False) -> None:
    plan = item.compaction
    if plan.groups:
        say(
            f"Compaction ({plan.strategy}, estimated: Spark's procedure plans again): {plan.files_in:,} files, "
            f"{format_size(plan.bytes_in)} → {plan.files_out:,} files of up to {format_size(plan.target_file_bytes)}; "
            f"about {format_duration(plan.cost.duration_seconds)}, ${plan.cost.dollars:.4f}."
        )
        _show_groups(item, with_files)
    else:
        say("Compaction: no files to rewrite.")
    for key in plan.skipped_open:
        say(f"Left alone, still open: {key.path}")


def show_expiry(gone: ExpiryPreview) -> None:
    say(
        f"Expiry: {len(gone.snapshot_ids):,} snapshots and the {gone.data_files:,} data files, {gone.delete_files:,} "
        f"delete files, {gone.manifests:,} manifests and {gone.manifest_lists:,} manifest lists that only they need "
        f"({format_size(gone.bytes)})."
    )


def _show_groups(item: TablePlan, with_files: bool) -> None:
    numbers = ("#", "files", "deletes", "size", "files out", "est. time")
    table = grid("#", "partition", *numbers[1:], numbers=numbers)
    groups = item.compaction.groups
    for position, group in enumerate(groups[:SHOWN_GROUPS], 1):
        row(
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
    if len(groups) > SHOWN_GROUPS:
        say(f"… and {len(groups) - SHOWN_GROUPS:,} more groups (--format json has them all).")
    if with_files:
        for position, group in enumerate(groups, 1):
            for path in group.paths:
                say(f"{position}\t{path}")


def show_history(runs: Sequence[RunRecord], output: str) -> None:
    if output == "json":
        print_json({"runs": [to_json(run) for run in runs]})
        return
    if not runs:
        say("No runs yet.")
        return
    numbers = ("took", "estimated")
    table = grid("started (UTC)", "table", "action", "state", "what changed", *numbers, numbers=numbers)
    for run in runs:
        row(
            table,
            f"{run.started_at:%Y-%m-%d %H:%M:%S}",
            str(run.table),
            run.kind.value,
            run.state.value,
            outcome(run),
            format_duration(run.realised_seconds),
            format_duration(run.estimate.duration_seconds) if run.estimate else "",
        )
    console().print(table)


def outcome(run: RunRecord) -> str:
    """One line of what a run did; of what kept it from doing it, where it did not."""
    if run.state is RunState.RUNNING:
        return "under way, or cut off before it could say how it ended"
    effect = run.effect
    parts = []
    if effect.files_rewritten:
        parts.append(
            f"{effect.files_rewritten:,} → {effect.files_added:,} files ({format_size(effect.bytes_rewritten)})"
        )
    if effect.delete_files_removed:
        parts.append(f"{effect.delete_files_removed:,} delete files gone")
    if effect.manifests_after < effect.manifests_before:
        parts.append(f"{effect.manifests_before:,} → {effect.manifests_after:,} manifests")
    if effect.snapshots_removed:
        parts.append(f"{effect.snapshots_removed:,} snapshots expired")
    if effect.files_deleted:
        parts.append(f"{effect.files_deleted:,} files deleted ({format_size(effect.bytes_deleted)})")
    if run.value_proof is not None and run.value_proof.total:
        parts.append(run.value_proof.sentence)
    if run.message:
        parts.append(run.message)
    return "; ".join(parts) or "nothing to do"
