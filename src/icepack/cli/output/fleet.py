"""Prints the decisions of the orchestrator and the result of a health sync."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.cli.console import (
    add_row,
    console,
    create_table,
    format_score,
    print_errors,
    print_json,
    print_text,
    short_names,
)
from icepack.cli.output.failures import errors_json
from icepack.cli.output.timestamps import format_utc
from icepack.domain.actions import action_to_json
from icepack.domain.fleet import BudgetPool, DecisionOutcome, Resource
from icepack.domain.job import SubmissionOutcome
from icepack.domain.serialization import to_json
from icepack.domain.units import format_count, format_duration
from icepack.service.health_sync import SyncReport
from icepack.service.orchestrator import OrchestratorPass, PlacedDecision


def show_orchestrator_pass(found: OrchestratorPass, output: str, *, explain: bool) -> None:
    if output == "json":
        print_json(orchestrator_json(found, explain=explain))
        return
    chosen = [item for item in found.placed if item.decision.outcome is DecisionOutcome.CHOSEN]
    shown = found.placed if explain else chosen
    if shown:
        _show_decisions(shown, found.shadow)
    print_text(_summarize(found, len(chosen)))
    if explain:
        for pool, spent in sorted(found.spent.items()):
            amounts = f"{pool.format_amount(spent)} of {pool.format_amount(pool.limit)}"
            print_text(f"Budget of {pool.layer}: {amounts} spent or reserved today.")
    print_errors(found.failed)


def _summarize(found: OrchestratorPass, chosen: int) -> str:
    tables = format_count(chosen, "table")
    result = f"{tables} would get jobs" if found.shadow else f"{format_count(found.jobs, 'job')} submitted for {tables}"
    active = f"{found.active_tables} of at most {found.concurrency} tables already had jobs"
    age = (
        "no cache, all tables inspected" if found.cache_age is None else f"cache age {format_duration(found.cache_age)}"
    )
    return f"{result}; {active}; {age}."


def _show_decisions(placed: Sequence[PlacedDecision], shadow: bool) -> None:
    names = short_names(item.decision.candidate.table for item in placed)
    numbers = ("score", "benefit/month", "cost", "benefit per dollar")
    table = create_table("table", *numbers, "decision", "actions", numbers=numbers)
    for item in placed:
        candidate, decision = item.decision.candidate, item.decision
        actions = decision.actions or candidate.actions
        add_row(
            table,
            names[candidate.table],
            format_score(candidate.score),
            f"${candidate.benefit_dollars:.4f}",
            f"${candidate.cost_dollars:.4f}",
            f"{candidate.value:,.0f}",
            _describe_decision(item, shadow),
            ", ".join(action.kind for action in actions),
        )
    console().print(table)


def _describe_decision(item: PlacedDecision, shadow: bool) -> str:
    decision = item.decision
    if decision.outcome is not DecisionOutcome.CHOSEN:
        return decision.reason
    result = "would be submitted" if shadow else _describe_submission(item)
    return f"{result}; {decision.reason}" if decision.reason else result


def _describe_submission(item: PlacedDecision) -> str:
    is_new = any(submission.outcome is SubmissionOutcome.CREATED for submission in item.submissions)
    return "submitted" if is_new else "already submitted"


def orchestrator_json(found: OrchestratorPass, *, explain: bool = True) -> dict[str, Any]:
    """Returns all decisions with `explain`, else only the chosen tables."""
    shown = [item for item in found.placed if explain or item.decision.outcome is DecisionOutcome.CHOSEN]
    return {
        "at": format_utc(found.at),
        "shadow": found.shadow,
        "cache_age_seconds": None if found.cache_age is None else found.cache_age.total_seconds(),
        "active_tables": found.active_tables,
        "concurrency": found.concurrency,
        "jobs_submitted": found.jobs,
        "budgets": [_budget_json(pool, spent) for pool, spent in sorted(found.spent.items())],
        "decisions": [_decision_json(item) for item in shown],
        "errors": errors_json(found.failed),
    }


def _budget_json(pool: BudgetPool, spent: float) -> dict[str, Any]:
    unit = "dollars" if pool.resource is Resource.DOLLARS else "core_seconds"
    return {"setting": pool.resource.value, "layer": pool.layer, "unit": unit, "limit": pool.limit, "spent": spent}


def _decision_json(item: PlacedDecision) -> dict[str, Any]:
    candidate, decision = item.decision.candidate, item.decision
    return {
        "table": str(candidate.table),
        "fate": decision.outcome.value,
        "reason": decision.reason,
        "score": candidate.score,
        "benefit_dollars": candidate.benefit_dollars,
        "cost_dollars": candidate.cost_dollars,
        "value": candidate.value,
        "recommended": [action.kind.value for action in candidate.actions],
        "actions": [action_to_json(action.action) for action in decision.actions],
        "jobs": [
            {"id": str(submission.job.id), "action": submission.job.kind.value, "outcome": submission.outcome.value}
            for submission in item.submissions
        ],
    }


def show_sync_report(report: SyncReport, output: str) -> None:
    if output == "json":
        print_json(sync_report_json(report))
        return
    print_text(
        f"{format_count(report.tables, 'table')}, {report.changed:,} changed: {report.refreshed:,} inspected, "
        f"{report.removed:,} removed, in {format_duration(report.seconds)}."
    )
    for name, reason in report.silent_catalogs.items():
        print_text(f"✗ catalog {name} (its cached tables are kept): {reason}")
    print_errors(report.unreadable)


def sync_report_json(report: SyncReport) -> dict[str, Any]:
    return {
        "tables": report.tables,
        "changed": report.changed,
        "refreshed": report.refreshed,
        "removed": report.removed,
        "seconds": report.seconds,
        "cache": to_json(report.state),
        "silent_catalogs": dict(report.silent_catalogs),
        "errors": errors_json(report.unreadable),
    }
