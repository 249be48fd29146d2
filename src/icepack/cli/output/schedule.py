"""Prints upcoming scheduled runs, and logs what the scheduler submits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import islice
from typing import Any

from icepack.cli.console import add_row, console, create_table, print_errors, print_json, print_text, short_names
from icepack.cli.output.failures import TableErrors, errors_json
from icepack.cli.output.service_log import log_status
from icepack.cli.output.timestamps import format_utc
from icepack.domain.job import Submission, SubmissionOutcome
from icepack.domain.scheduling.schedule import ScheduleEntry
from icepack.domain.table import TableId
from icepack.service.fleet.upcoming import UpcomingRun
from icepack.service.scheduler import SchedulerPass, TickOutcome, TickResult

MAX_ROWS_SHOWN = 50

_SUBMISSION_NOTES = {
    SubmissionOutcome.CREATED: "",
    SubmissionOutcome.COLLAPSED: " (already queued)",
    SubmissionOutcome.REPEATED: " (already submitted)",
}


def log_scheduler_pass(found: SchedulerPass) -> None:
    for result in found.results:
        if result.outcome is not TickOutcome.NOTHING:
            log_status(f"{result.tick.table}: {_describe_result(result)}")
    for item in found.skipped:
        more = f" and {item.count - 1} earlier ones were" if item.count > 1 else " was"
        log_status(f"{item.table}: the run of {item.tick:%Y-%m-%d %H:%M} UTC{more} skipped. {item.reason}")


def _describe_result(result: TickResult) -> str:
    match result.outcome:
        case TickOutcome.SUBMITTED | TickOutcome.REPEATED:
            return _describe_submissions(result.submissions) or "already submitted by another scheduler."
        case TickOutcome.WAITING:
            return f"waits until its window opens at {result.retry_at:%Y-%m-%d %H:%M} UTC."
        case _:
            return result.message


def _describe_submissions(submissions: Sequence[Submission]) -> str:
    return ", ".join(f"{item.job.kind}{_SUBMISSION_NOTES[item.outcome]}" for item in submissions)


def show_schedule(
    runs: Sequence[UpcomingRun], errors: TableErrors, period: tuple[datetime, datetime], zone: tzinfo, output: str
) -> None:
    if output == "json":
        print_json(
            {
                "from": format_utc(period[0]),
                "until": format_utc(period[1]),
                "timezone": str(zone),
                "runs": [_upcoming_json(item) for item in runs],
                "errors": errors_json(errors),
            }
        )
        return
    if not runs:
        print_text("No runs are scheduled.")
    elif len({item.table for item in runs}) == 1:
        _show_runs(runs, zone)
    else:
        _show_next_runs(runs, zone)
    print_errors(errors)


def _show_runs(runs: Sequence[UpcomingRun], zone: tzinfo) -> None:
    table = create_table(f"time ({zone})", "table", "action", "schedule", "")
    for item in runs[:MAX_ROWS_SHOWN]:
        note = _describe_wait(item, zone)
        add_row(table, _format_time(item, zone), item.table, _describe_action(item.entry), item.entry.cron, note)
    console().print(table)
    if len(runs) > MAX_ROWS_SHOWN:
        print_text(f"… and {len(runs) - MAX_ROWS_SHOWN:,} more (--format json lists all).")


def _show_next_runs(runs: Sequence[UpcomingRun], zone: tzinfo) -> None:
    """Prints one line per table, because the runs of all tables would be too many to read."""
    by_table: dict[TableId, list[UpcomingRun]] = {}
    for item in runs:
        by_table.setdefault(item.table, []).append(item)
    names = short_names(by_table)
    columns = (f"next ({zone})", "table", "action", "schedule", "then", "runs", "")
    table = create_table(*columns, numbers=("runs",))
    for name, (first, *later) in islice(by_table.items(), MAX_ROWS_SHOWN):
        then = _format_time(later[0], zone) if later else ""
        cells = (_describe_action(first.entry), first.entry.cron, then, len(later) + 1, _describe_wait(first, zone))
        add_row(table, _format_time(first, zone), names[name], *cells)
    console().print(table)
    if len(by_table) > MAX_ROWS_SHOWN:
        print_text(f"… and {len(by_table) - MAX_ROWS_SHOWN:,} more tables (--format json lists all).")


def _format_time(item: UpcomingRun, zone: tzinfo) -> str:
    return f"{item.occurrence.due_at.astimezone(zone):%a %Y-%m-%d %H:%M:%S}"


def _upcoming_json(item: UpcomingRun) -> dict[str, Any]:
    parameters = item.entry.compaction
    return {
        "table": str(item.table),
        "due_at": format_utc(item.occurrence.due_at),
        "tick": format_utc(item.occurrence.tick),
        "opens_at": format_utc(item.occurrence.opens_at),
        "jitter_seconds": item.occurrence.jitter.total_seconds(),
        "schedule": item.entry.cron,
        "compaction": None
        if parameters is None
        else {name: _tuple_to_list(value) for name, value in sorted(parameters.items())},
    }


def _tuple_to_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _describe_action(entry: ScheduleEntry) -> str:
    if entry.compaction is None:
        return "recommended actions"
    return " ".join(["compact", str(entry.compaction.get("strategy", ""))]).strip()


def _describe_wait(item: UpcomingRun, zone: tzinfo) -> str:
    if not item.occurrence.waits_for_window:
        return ""
    return f"due {item.occurrence.tick.astimezone(zone):%a %H:%M}, waits for its window"
