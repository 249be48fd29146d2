"""What the commands of scheduler, orchestrator and health sync print."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Any

import click

from icepack.cli.console import console, grid, print_json, row, say, score, short_names, show_errors
from icepack.cli.output.render import Failed, errors_json
from icepack.domain.actions import action_to_json
from icepack.domain.fleet import Fate, Pool, Resource
from icepack.domain.job import Submission, Submitted
from icepack.domain.scheduling.schedule import ScheduleEntry
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.units import format_duration
from icepack.logs import LogFormat
from icepack.service.fleet.upcoming import Upcoming
from icepack.service.health_sync import SyncReport
from icepack.service.orchestrator import FleetRound, Placed
from icepack.service.scheduler import Answer, End, Round

SHOWN_RUNS = 50

_told = logging.getLogger(__name__)
# What a service says by itself is said however quiet the others are to be.
_told.setLevel(logging.INFO)


def tell(text: str) -> None:
    """A line for whoever watches a process that goes on."""
    if _logs_as_json():
        _told.info(text)
    else:
        click.echo(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}", err=True)


def _logs_as_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and (context.find_root().obj or {}).get("logs") is LogFormat.JSON


def tell_schedule(found: Round) -> None:
    for answer in found.answers:
        if answer.end is not End.NOTHING:
            tell(f"{answer.call.table}: {_answer_text(answer)}")
    for item in found.skipped:
        more = f" and {item.count - 1} before it are" if item.count > 1 else " is"
        tell(f"{item.table}: the tick of {item.tick:%Y-%m-%d %H:%M} UTC{more} left out. {item.reason}")


def _answer_text(answer: Answer) -> str:
    match answer.end:
        case End.SUBMITTED | End.REPEATED:
            return _submitted_text(answer.submissions) or "another scheduler has submitted it."
        case End.WAITING:
            return f"its window opens {answer.again_at:%Y-%m-%d %H:%M} UTC."
        case _:
            return answer.message


def _submitted_text(submissions: Sequence[Submission]) -> str:
    said = {Submitted.CREATED: "", Submitted.COLLAPSED: " (queued already)", Submitted.REPEATED: " (submitted before)"}
    return ", ".join(f"{item.job.kind}{said[item.outcome]}" for item in submissions)


def show_schedule(
    found: Sequence[Upcoming], failed: Failed, span: tuple[datetime, datetime], zone: tzinfo, output: str
) -> None:
    if output == "json":
        print_json(
            {
                "from": _utc(span[0]),
                "until": _utc(span[1]),
                "timezone": str(zone),
                "runs": [_upcoming_json(item) for item in found],
                "errors": errors_json(failed),
            }
        )
        return
    if not found:
        say("Nothing runs.")
    elif len({item.table for item in found}) == 1:
        _show_runs(found, zone)
    else:
        _show_next_runs(found, zone)
    show_errors(failed)


def _show_runs(found: Sequence[Upcoming], zone: tzinfo) -> None:
    table = grid(f"when ({zone})", "table", "what", "schedule", "")
    for item in found[:SHOWN_RUNS]:
        row(table, _wall(item, zone), item.table, _what(item.entry), item.entry.line, _note(item, zone))
    console().print(table)
    if len(found) > SHOWN_RUNS:
        say(f"… and {len(found) - SHOWN_RUNS:,} more (--format json has them all).")


def _show_next_runs(found: Sequence[Upcoming], zone: tzinfo) -> None:
    """One line per table: a week of every table's runs is more than anybody reads."""
    runs: dict[TableId, list[Upcoming]] = {}
    for item in found:
        runs.setdefault(item.table, []).append(item)
    names = short_names(runs)
    table = grid(f"next ({zone})", "table", "what", "schedule", "then", "runs", "", numbers=("runs",))
    for name, items in islice(runs.items(), SHOWN_RUNS):
        first, *later = items
        then = _wall(later[0], zone) if later else ""
        note = _note(first, zone)
        row(table, _wall(first, zone), names[name], _what(first.entry), first.entry.line, then, len(items), note)
    console().print(table)
    if len(runs) > SHOWN_RUNS:
        say(f"… and {len(runs) - SHOWN_RUNS:,} more tables (--format json has them all).")


def _wall(item: Upcoming, zone: tzinfo) -> str:
    return f"{item.occurrence.due_at.astimezone(zone):%a %Y-%m-%d %H:%M:%S}"


def _upcoming_json(item: Upcoming) -> dict[str, Any]:
    given = item.entry.compaction
    return {
        "table": str(item.table),
        "due_at": _utc(item.occurrence.due_at),
        "tick": _utc(item.occurrence.tick),
        "opens_at": _utc(item.occurrence.opens_at),
        "jitter_seconds": item.occurrence.jitter.total_seconds(),
        "schedule": item.entry.line,
        "compaction": None if given is None else {name: _plain(value) for name, value in sorted(given.items())},
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _what(entry: ScheduleEntry) -> str:
    if entry.compaction is None:
        return "whatever is recommended then"
    return " ".join(["compact", str(entry.compaction.get("strategy", ""))]).strip()


def _note(item: Upcoming, zone: tzinfo) -> str:
    if not item.occurrence.waits_for_window:
        return ""
    return f"waits for its window since {item.occurrence.tick.astimezone(zone):%a %H:%M}"


def show_fleet(found: FleetRound, output: str, *, explain: bool) -> None:
    if output == "json":
        print_json(fleet_json(found, explain=explain))
        return
    chosen = [item for item in found.placed if item.decision.fate is Fate.CHOSEN]
    shown = found.placed if explain else chosen
    if shown:
        _show_decisions(shown, found.shadow)
    say(_summary(found, len(chosen)))
    if explain:
        for pool, spent in sorted(found.spent.items()):
            say(f"Budget of {pool.layer}: {pool.shown(spent)} of {pool.shown(pool.limit)} spent or promised today.")
    show_errors(found.failed)


def _summary(found: FleetRound, chosen: int) -> str:
    source = "every table was looked at" if found.cache_age is None else f"cache {format_duration(found.cache_age)} old"
    did = f"{chosen} tables would get jobs" if found.shadow else f"{found.jobs} jobs submitted for {chosen} tables"
    waiting = f"{found.active_tables} of {found.concurrency} tables had jobs already"
    return f"{did}; {waiting}; {source}."


def _show_decisions(placed: Sequence[Placed], shadow: bool) -> None:
    names = short_names(item.decision.candidate.table for item in placed)
    numbers = ("score", "benefit/month", "cost", "per dollar")
    table = grid("table", *numbers, "decision", "actions", numbers=numbers)
    for item in placed:
        candidate, decision = item.decision.candidate, item.decision
        actions = decision.actions or candidate.actions
        row(
            table,
            names[candidate.table],
            score(candidate.score),
            f"${candidate.benefit_dollars:.4f}",
            f"${candidate.cost_dollars:.4f}",
            f"{candidate.value:,.0f}",
            _decision_text(item, shadow),
            ", ".join(action.kind for action in actions),
        )
    console().print(table)


def _decision_text(item: Placed, shadow: bool) -> str:
    decision = item.decision
    if decision.fate is not Fate.CHOSEN:
        return decision.reason
    done = "would be submitted" if shadow else _placed_text(item)
    return f"{done}; {decision.reason}" if decision.reason else done


def _placed_text(item: Placed) -> str:
    is_new = any(submission.outcome is Submitted.CREATED for submission in item.submissions)
    return "submitted" if is_new else "was submitted by another"


def fleet_json(found: FleetRound, *, explain: bool = True) -> dict[str, Any]:
    """All decisions with `explain`, else those that were chosen."""
    shown = [item for item in found.placed if explain or item.decision.fate is Fate.CHOSEN]
    return {
        "at": _utc(found.at),
        "shadow": found.shadow,
        "cache_age_seconds": None if found.cache_age is None else found.cache_age.total_seconds(),
        "active_tables": found.active_tables,
        "concurrency": found.concurrency,
        "jobs_submitted": found.jobs,
        "budgets": [_budget_json(pool, spent) for pool, spent in sorted(found.spent.items())],
        "decisions": [_placed_json(item) for item in shown],
        "errors": errors_json(found.failed),
    }


def _budget_json(pool: Pool, spent: float) -> dict[str, Any]:
    unit = "dollars" if pool.resource is Resource.DOLLARS else "core_seconds"
    return {"setting": pool.resource.value, "layer": pool.layer, "unit": unit, "limit": pool.limit, "spent": spent}


def _placed_json(item: Placed) -> dict[str, Any]:
    candidate, decision = item.decision.candidate, item.decision
    return {
        "table": str(candidate.table),
        "fate": decision.fate.value,
        "reason": decision.reason,
        "score": candidate.score,
        "benefit_dollars": candidate.benefit_dollars,
        "cost_dollars": candidate.cost_dollars,
        "value": candidate.value,
        "recommended": [action.kind.value for action in candidate.actions],
        "actions": [action_to_json(action.action) for action in decision.actions],
        "jobs": [
            {"id": str(made.job.id), "action": made.job.kind.value, "outcome": made.outcome.value}
            for made in item.submissions
        ],
    }


def show_sync(report: SyncReport, output: str) -> None:
    if output == "json":
        print_json(sync_json(report))
        return
    say(
        f"{report.tables:,} tables, {report.changed:,} changed: {report.refreshed:,} looked at, "
        f"{report.removed:,} gone, in {format_duration(report.seconds)}."
    )
    for name, reason in report.silent.items():
        say(f"✗ catalog {name}, whose tables stay as they were: {reason}")
    show_errors(report.unread)


def sync_json(report: SyncReport) -> dict[str, Any]:
    return {
        "tables": report.tables,
        "changed": report.changed,
        "refreshed": report.refreshed,
        "removed": report.removed,
        "seconds": report.seconds,
        "cache": to_json(report.state),
        "silent_catalogs": dict(report.silent),
        "errors": errors_json(report.unread),
    }
