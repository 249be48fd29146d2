"""What a run needs: the request, and the ports that it uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event
from typing import Protocol
from uuid import UUID

from icepack.clock import utc_now
from icepack.domain.actions import Action
from icepack.domain.locations import TableLocations
from icepack.domain.observability.trace import PhaseSink, ignore_phase
from icepack.domain.plan.cost import CostEstimate, CostModel
from icepack.domain.ports.catalog import CommitReader, MetadataInspector
from icepack.domain.ports.engine import ActionEngine, ProgressSink, no_ownership_check, no_progress
from icepack.domain.ports.history import HistoryStore
from icepack.domain.recommendation import ExpectedEffect
from icepack.domain.run import RunRecord
from icepack.domain.table import TableId
from icepack.domain.verification import VerificationStore
from icepack.service.retry import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """Which action to run on which table, and what is expected of it."""

    table: TableId
    action: Action
    expected: ExpectedEffect | None = None
    estimate: CostEstimate | None = None
    """The estimated cost, if it was estimated and compared with the limit before; else the run does that itself."""
    progress: ProgressSink = no_progress
    cancel: Event | None = None
    job_id: UUID | None = None
    attempt: int | None = None
    """The attempt of the job; None for a run that was started by a command."""
    confirm_ownership: Callable[[], None] = no_ownership_check
    """Raises Cancelled if the claim or lock on the table has been lost."""
    phase: PhaseSink = ignore_phase
    """Receives each phase when it starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDependencies:
    """The ports that runs use."""

    inspector: MetadataInspector
    commit_reader: CommitReader
    engine: ActionEngine
    history: HistoryStore
    locations: Callable[[], TableLocations]
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    cost_model: CostModel = field(default_factory=CostModel)
    clock: Callable[[], datetime] = utc_now
    verification: VerificationStore | None = None


class Runner(Protocol):
    """Runs an action; every outcome is a RunRecord, never an exception."""

    def run(self, request: RunRequest) -> RunRecord: ...
