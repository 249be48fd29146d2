"""The jobs commands: list, show, submit, cancel and retry jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import click

from icepack.cli.audit import current_actor, record_audit_event
from icepack.cli.commands import run
from icepack.cli.console import add_row, console, create_table, print_json, print_text
from icepack.cli.context import format_option, open_app
from icepack.cli.options import parse_parameters
from icepack.domain.actions import ActionKind, action_to_json
from icepack.domain.job import Job, JobEvent, JobFilter, JobPage, JobRequest, JobState, Submission, SubmissionOutcome
from icepack.domain.serialization import from_json, to_json
from icepack.domain.units import format_size
from icepack.domain.verification import ValueProof
from icepack.errors import InvalidOption

# Options of `icepack run` that `jobs submit` does not have.
_RUN_ONLY = ("dry_run", "output")
_SUBMISSION_TEXTS = {
    SubmissionOutcome.CREATED: "Job {id} is queued.",
    SubmissionOutcome.COLLAPSED: "Job {id} is already queued for the same action.",
    SubmissionOutcome.REPEATED: "Job {id} was already submitted with this key; it is {state}.",
}


@click.group()
def jobs() -> None:
    """List, show, submit, cancel and retry jobs."""


@jobs.command("list")
@click.option(
    "--state", "states", type=click.Choice(list(map(str, JobState))), multiple=True, help="Only jobs in this state."
)
@click.option("--table", "pattern", help="Only jobs of this table.")
@click.option("--catalog", help="Only jobs of this catalog.")
@click.option("--action", "kind", type=click.Choice(list(map(str, ActionKind))), help="Only jobs of this action.")
@click.option("--requester", help="Only jobs of this requester.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Maximum number of jobs.")
@click.option("--before", type=int, help="Only jobs older than this number, which the previous page prints.")
@format_option
@click.pass_context
def list_jobs(
    ctx: click.Context,
    /,
    output: str,
    states: tuple[str, ...],
    pattern: str | None,
    kind: str | None,
    limit: int,
    before: int | None,
    **filters: Any,
) -> None:
    """List jobs, newest first."""
    with open_app(ctx, require_lake=False) as app:
        table = app.service.table(pattern) if pattern else None
        job_filter = JobFilter(
            states=frozenset(map(JobState, states)), table=table, kind=ActionKind(kind) if kind else None, **filters
        )
        page = app.jobs.list_jobs(job_filter, limit=limit, before=before)
    if output == "json":
        print_json({"jobs": [to_json(job) for job in page.jobs], "next_before": page.next_before})
    else:
        _show_page(page)


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def show(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Show a job and its events."""
    with open_app(ctx, require_lake=False) as app:
        job, events = app.jobs.get(job_id), app.jobs.events(job_id)
    if output == "json":
        print_json({"job": to_json(job), "events": [to_json(event) for event in events]})
    else:
        _show_job(job, events)


@jobs.command(params=[parameter for parameter in run.run.params if parameter.name not in _RUN_ONLY])
@click.option("--priority", type=int, default=0, show_default=True, help="Jobs with a higher priority run first.")
@click.option("--not-before", metavar="TIME", help="Earliest start: 2026-01-31T22:00:00Z.")
@click.option(
    "--max-attempts", type=click.IntRange(1), help="Maximum number of attempts; default: worker.max_attempts."
)
@click.option("--key", help="Idempotency key: submitting again with the same key creates no second job.")
@format_option
@click.pass_context
def submit(
    ctx: click.Context,
    /,
    kind: ActionKind,
    pattern: str,
    output: str,
    priority: int,
    not_before: str | None,
    max_attempts: int | None,
    key: str | None,
    **flags: Any,
) -> None:
    """Submit an action on a table as a job, with the options of `icepack run`."""
    parameters = parse_parameters(kind, flags)
    with open_app(ctx) as app:
        table = app.service.table(pattern)
        request = JobRequest(
            table=table,
            action=app.service.prepare(table, kind, parameters),
            priority=priority,
            not_before=_parse_time(not_before) if not_before else None,
            max_attempts=max_attempts or app.loaded.config.worker.max_attempts,
            requester=current_actor(),
            idempotency_key=key,
        )
        submission = app.jobs.submit(request)
        record_audit_event(app, "jobs.submit", str(submission.job.id), submission.outcome)
    _show_submission(submission, output)


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def cancel(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Cancel a job: at once if it is queued, within seconds if it is running."""
    with open_app(ctx, require_lake=False) as app:
        job = app.jobs.cancel(job_id, by=current_actor())
        record_audit_event(app, "jobs.cancel", str(job_id), job.state)
    if output == "json":
        print_json({"job": to_json(job)})
    elif job.state is JobState.CANCELLED:
        print_text(f"Job {job.id} is cancelled.")
    else:
        print_text(f"Job {job.id} is {job.state}; its worker will stop it.")


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def retry(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Submit the action of a finished job again, as a new job."""
    with open_app(ctx, require_lake=False) as app:
        submission = app.jobs.retry(job_id, requester=current_actor())
        record_audit_event(app, "jobs.retry", str(job_id), str(submission.job.id))
    _show_submission(submission, output)


def _parse_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidOption(f"{text} is not a valid time.", "Write it as 2026-01-31T22:00:00Z.") from exc


def _show_submission(submission: Submission, output: str) -> None:
    job = submission.job
    if output == "json":
        print_json({"outcome": submission.outcome.value, "job": to_json(job)})
    else:
        print_text(_SUBMISSION_TEXTS[submission.outcome].format(id=job.id, state=job.state))


def _show_page(page: JobPage) -> None:
    if not page.jobs:
        print_text("No matching jobs.")
        return
    table = create_table("job", "state", "action", "table", "attempts", "submitted (UTC)", "message")
    for job in page.jobs:
        attempts = f"{job.attempts}/{job.max_attempts}"
        submitted = f"{job.submitted_at:%Y-%m-%d %H:%M:%S}"
        add_row(table, job.id, job.state, job.kind, job.table, attempts, submitted, job.message)
    console().print(table)
    if page.next_before is not None:
        print_text(f"For the next page: --before {page.next_before}")


def _show_job(job: Job, events: list[JobEvent]) -> None:
    print_text(f"{job.kind} on {job.table}: {job.state}")
    for name, value in _facts(job).items():
        print_text(f"  {name}: {value}")
    for event in events:
        message = f": {event.message}" if event.message else ""
        by = f" by {event.actor}" if event.actor else ""
        print_text(f"  {event.at:%Y-%m-%d %H:%M:%S} {event.kind}{by}{message}")


def _describe_value_proof(job: Job) -> str:
    document = (job.details or {}).get("value_proof")
    proof = from_json(ValueProof, document) if document else None
    return proof.sentence if proof is not None and proof.total else ""


def _facts(job: Job) -> dict[str, str]:
    progress = job.progress
    facts = {
        "requester": job.requester,
        "parameters": ", ".join(f"{key}={value}" for key, value in action_to_json(job.action).items() if value),
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "waits until": f"{job.waits_until:%Y-%m-%d %H:%M:%S} UTC" if job.waits_until else "",
        "worker": job.worker if job.state is JobState.RUNNING else None,
        "partitions": f"{progress.partitions_completed} of {progress.partitions_total}"
        if progress.partitions_total
        else "",
        "files": str(progress.files_processed or ""),
        "read and written": f"{format_size(progress.bytes_read)}, {format_size(progress.bytes_written)}"
        if progress.bytes_read
        else "",
        "value proof": _describe_value_proof(job),
        "message": job.message,
    }
    return {name: value for name, value in facts.items() if value}
