"""The trace of a run: one span for the run, with one child span for each phase."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from icepack.domain.job import Job
from icepack.domain.observability.trace import Phase, Span, TraceContext
from icepack.domain.run import RunRecord, RunState
from icepack.tracing import PhaseSpans, Tracer


class RunTrace(AbstractContextManager["RunTrace"]):
    """Traces a run, in its parent's trace if there is one, else in a new trace."""

    def __init__(self, tracer: Tracer, parent: TraceContext | None = None, **attributes: str | int) -> None:
        # The spans that have ended.
        self.spans: list[Span] = []
        self._tracer = tracer
        self._run = tracer.start("run", parent)
        self._run.set_attributes(**attributes)
        self._phases = PhaseSpans(tracer, self._run.context)

    @property
    def trace_id(self) -> str:
        return self._run.context.trace_id

    def phase(self, phase: Phase) -> None:
        self._phases.enter(phase)

    def end(self, record: RunRecord) -> None:
        """Adds the outcome of the run to its span."""
        effect = record.effect
        self._run.set_attributes(icepack__state=record.state.value, icepack__files_rewritten=effect.files_rewritten)
        self._run.set_attributes(icepack__bytes_read=effect.bytes_rewritten, icepack__bytes_written=effect.bytes_added)
        if record.state is not RunState.SUCCEEDED:
            self._run.failure = record.message or record.state.value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._run.failure = f"{type(error).__name__}: {error}"
        phases = self._phases.finish(self._run.failure)
        self.spans = [self._tracer.end(self._run), *phases]


class JobTrace(RunTrace):
    """Continues the trace that the job was submitted in."""

    def __init__(self, tracer: Tracer, job: Job, worker: str) -> None:
        super().__init__(
            tracer,
            TraceContext.parse(job.trace_context),
            icepack__job_id=str(job.id),
            icepack__table=str(job.table),
            icepack__action=job.kind.value,
            icepack__attempt=job.attempts,
            icepack__worker=worker,
        )
