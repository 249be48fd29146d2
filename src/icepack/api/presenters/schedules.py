"""Presents upcoming runs and previews of schedules as JSON."""

from __future__ import annotations

from typing import Any

from icepack.api.overrides.previews import ScheduleChange, SchedulePreview
from icepack.service.fleet.upcoming import UpcomingRun


def present_upcoming_run(run: UpcomingRun) -> dict[str, Any]:
    compaction, occurrence = run.entry.compaction, run.occurrence
    return {
        "table": str(run.table),
        "due_at": occurrence.due_at,
        "tick": occurrence.tick,
        "opens_at": occurrence.opens_at,
        "jitter_seconds": occurrence.jitter.total_seconds(),
        "schedule": run.entry.cron,
        "compaction": None if compaction is None else dict(compaction),
    }


def present_schedule_preview(preview: SchedulePreview) -> dict[str, Any]:
    return {
        "enabled": preview.enabled,
        "from": preview.since,
        "until": preview.until,
        "timezone": preview.timezone,
        "tables": preview.tables,
        "changes": [_present_change(change) for change in preview.changes],
        "runs": [present_upcoming_run(run) for run in preview.runs],
        "total": preview.total,
    }


def _present_change(change: ScheduleChange) -> dict[str, Any]:
    old, new = change.before.compaction, change.after.compaction
    return {
        "table_name": str(change.table),
        "schedule_before": change.before.cron,
        "schedule_after": change.after.cron,
        "compaction_before": None if old is None else dict(old),
        "compaction_after": None if new is None else dict(new),
        "runs_before": change.runs_before,
        "runs_after": change.runs_after,
        "next_before": change.next_before,
        "next_after": change.next_after,
    }
