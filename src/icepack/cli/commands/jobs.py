"""The commands around the queue of jobs."""

from __future__ import annotations

import getpass
import socket
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import click

from icepack.cli.commands import run
from icepack.cli.console import console, grid, print_json, row, say
from icepack.cli.context import application, format_option, stateful
from icepack.cli.options import given_parameters
from icepack.domain.actions import ActionKind, action_to_json
from icepack.domain.job import Job, JobEvent, JobFilter, JobPage, JobRequest, JobState, Submission, Submitted
from icepack.domain.ports.queue import AuditEvent
from icepack.domain.serialization import from_json, to_json
from icepack.domain.units import format_size
from icepack.domain.verification import ValueProof
from icepack.errors import InvalidOption
from icepack.wiring import App

_NOT_FOR_JOBS = ("dry_run", "output")
_SAID = {
    Submitted.CREATED: "Job {id} is queued.",
    Submitted.COLLAPSED: "Job {id}, which was queued already, asks for the same.",
    Submitted.REPEATED: "Job {id} was submitted with this key before; it is {state}.",
}


def who() -> str:
    return f"cli:{getpass.getuser()}@{socket.gethostname()}"


def audit(app: App, action: str, subject: str, outcome: str) -> None:
    app.audit.record(AuditEvent(at=datetime.now(UTC), actor=who(), action=action, subject=subject, outcome=outcome))


@click.group()
def jobs() -> None:
    """The queue: list, show, submit, cancel, retry."""


@jobs.command("list")
@click.option(
    "--state", "states", type=click.Choice(list(map(str, JobState))), multiple=True, help="Only in this state."
)
@click.option("--table", "pattern", help="Only jobs of this table.")
@click.option("--catalog", help="Only jobs of this catalog.")
@click.option("--action", "kind", type=click.Choice(list(map(str, ActionKind))), help="Only jobs of this action.")
@click.option("--requester", help="Only jobs that this one asked for.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many.")
@click.option("--before", type=int, help="Older than this number: the page after.")
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
    **wanted: Any,
) -> None:
    """List jobs, the newest first."""
    with stateful(ctx) as app:
        table = app.service.table(pattern) if pattern else None
        chosen = JobFilter(
            states=frozenset(map(JobState, states)), table=table, kind=ActionKind(kind) if kind else None, **wanted
        )
        page = app.jobs.list_jobs(chosen, limit=limit, before=before)
    if output == "json":
        print_json({"jobs": [to_json(job) for job in page.jobs], "next_before": page.next_before})
    else:
        _show_page(page)


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def show(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Show a job and its story."""
    with stateful(ctx) as app:
        job, events = app.jobs.get(job_id), app.jobs.events(job_id)
    if output == "json":
        print_json({"job": to_json(job), "events": [to_json(event) for event in events]})
    else:
        _show_job(job, events)


@jobs.command(params=[parameter for parameter in run.run.params if parameter.name not in _NOT_FOR_JOBS])
@click.option("--priority", type=int, default=0, show_default=True, help="The larger goes first.")
@click.option("--not-before", metavar="TIME", help="Not before this moment: 2026-01-31T22:00:00Z.")
@click.option("--max-attempts", type=click.IntRange(1), help="How often it may be tried; else worker.max_attempts.")
@click.option("--key", help="Idempotency key: submitting again with it is the same submission.")
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
    """Queue an action on a table, with the options of `icepack run`."""
    given = given_parameters(kind, flags)
    with application(ctx) as app:
        table = app.service.table(pattern)
        request = JobRequest(
            table=table,
            action=app.service.prepare(table, kind, given),
            priority=priority,
            not_before=_moment(not_before) if not_before else None,
            max_attempts=max_attempts or app.loaded.config.worker.max_attempts,
            requester=who(),
            idempotency_key=key,
        )
        submission = app.jobs.submit(request)
        audit(app, "jobs.submit", str(submission.job.id), submission.outcome)
    _show_submission(submission, output)


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def cancel(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Cancel a job: at once if it is queued, within seconds if it runs."""
    with stateful(ctx) as app:
        job = app.jobs.cancel(job_id, by=who())
        audit(app, "jobs.cancel", str(job_id), job.state)
    if output == "json":
        print_json({"job": to_json(job)})
    elif job.state is JobState.CANCELLED:
        say(f"Job {job.id} is cancelled.")
    else:
        say(f"Job {job.id} is {job.state}; its worker has been asked to stop.")


@jobs.command()
@click.argument("job_id", metavar="JOB", type=click.UUID)
@format_option
@click.pass_context
def retry(ctx: click.Context, job_id: UUID, output: str) -> None:
    """Queue what a finished job asked for once more."""
    with stateful(ctx) as app:
        submission = app.jobs.retry(job_id, requester=who())
        audit(app, "jobs.retry", str(job_id), str(submission.job.id))
    _show_submission(submission, output)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidOption(f"{text} is no time.", "Write it as 2026-01-31T22:00:00Z.") from exc


def _show_submission(submission: Submission, output: str) -> None:
    job = submission.job
    if output == "json":
        print_json({"outcome": submission.outcome.value, "job": to_json(job)})
    else:
        say(_SAID[submission.outcome].format(id=job.id, state=job.state))


def _show_page(page: JobPage) -> None:
    if not page.jobs:
        say("There are no such jobs.")
        return
    table = grid("job", "state", "action", "table", "attempts", "submitted", "message")
    for job in page.jobs:
        tries = f"{job.attempts}/{job.max_attempts}"
        row(table, job.id, job.state, job.kind, job.table, tries, f"{job.submitted_at:%Y-%m-%d %H:%M:%S}", job.message)
    console().print(table)
    if page.next_before is not None:
        say(f"There are more: --before {page.next_before}")


def _show_job(job: Job, events: list[JobEvent]) -> None:
    say(f"{job.kind} on {job.table}: {job.state}")
    for name, value in _facts(job).items():
        say(f"  {name}: {value}")
    for event in events:
        said = f": {event.message}" if event.message else ""
        by = f" by {event.actor}" if event.actor else ""
        say(f"  {event.at:%Y-%m-%d %H:%M:%S} {event.kind}{by}{said}")


def _proven(job: Job) -> str:
    document = (job.details or {}).get("value_proof")
    proof = from_json(ValueProof, document) if document else None
    return proof.sentence if proof is not None and proof.total else ""


def _facts(job: Job) -> dict[str, str]:
    done = job.progress
    facts = {
        "asked for by": job.requester,
        "parameters": ", ".join(f"{key}={value}" for key, value in action_to_json(job.action).items() if value),
        "attempts": f"{job.attempts} of {job.max_attempts}",
        "waits until": f"{job.waits_until:%Y-%m-%d %H:%M:%S} UTC" if job.waits_until else "",
        "worker": job.worker if job.state is JobState.RUNNING else None,
        "partitions": f"{done.partitions_completed} of {done.partitions_total}" if done.partitions_total else "",
        "files": str(done.files_processed or ""),
        "read and written": f"{format_size(done.bytes_read)}, {format_size(done.bytes_written)}"
        if done.bytes_read
        else "",
        "proven": _proven(job),
        "message": job.message,
    }
    return {name: value for name, value in facts.items() if value}
