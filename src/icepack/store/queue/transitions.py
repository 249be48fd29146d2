"""Writes a job's state; the domain's transition table is part of the statement."""

from __future__ import annotations

from sqlalchemy import Update, update

from icepack.domain.job import JobState, list_source_states
from icepack.store.schema import jobs
from icepack.store.sql.types import text_literal


def transition_to(state: JobState) -> Update:
    """Moves the jobs that the caller selects to the state, except those whose current state does not allow it."""
    origins = [text_literal(origin.value) for origin in list_source_states(state)]
    return update(jobs).where(jobs.c.state.in_(origins)).values(state=text_literal(state.value))
