"""The one place where a job's state is written; the domain's table of moves is part of the statement."""

from __future__ import annotations

from sqlalchemy import Update, update

from icepack.domain.job import JobState, sources
from icepack.store.schema import constant, jobs


def moved(to: JobState) -> Update:
    """Moves whatever jobs the caller selects, and none that may not go there."""
    origins = [constant(state.value) for state in sources(to)]
    return update(jobs).where(jobs.c.state.in_(origins)).values(state=constant(to.value))
