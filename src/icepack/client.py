"""A typed client of the API, with one method for each operation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

from pydantic import BaseModel

try:
    import httpx
    from httpx_sse import EventSource, connect_sse
except ModuleNotFoundError as error:
    raise ImportError("icepack.client needs httpx. Install it: pip install 'icepack[client]'") from error

from icepack.api.schemas.errors import Problem
from icepack.api.schemas.fleet import AuditPage, CostView, LocksView, OverviewView
from icepack.api.schemas.jobs import JobAccepted, JobEvents, JobPlan, JobsView, JobView, MaintainAccepted
from icepack.api.schemas.keys import CreatedKey, KeysView, KeyView
from icepack.api.schemas.policies import PoliciesView, PolicyPreviewView
from icepack.api.schemas.probes import Liveness, Readiness
from icepack.api.schemas.schedules import SchedulePreviewView, SchedulesView, UpcomingView
from icepack.api.schemas.session import SessionView
from icepack.api.schemas.settings import ChecksView, SettingsView
from icepack.api.schemas.tables import (
    HistogramView,
    HistoryView,
    PartitionPage,
    PlanView,
    SnapshotsView,
    TablePage,
    TableView,
)
from icepack.errors import EnvironmentFault, IcepackError

BASE_PATH = "/api/v1"
JOB_EVENT = "job"
M = TypeVar("M", bound=BaseModel)


class ApiProblem(IcepackError):
    """The service returned an error; `problem` has its details."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @property
    def status(self) -> int:
        return self.problem.status


class JobTimeout(IcepackError):
    def __init__(self, job_id: UUID | str, seconds: float) -> None:
        super().__init__(
            f"Job {job_id} did not finish within {seconds:.0f} seconds.", "It continues to run; wait for it again."
        )


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """An event of the stream: `job` is an event of a job and has a number to resume from, `progress` has none."""

    kind: str
    document: dict[str, Any]
    number: int | None = None


class Client:
    """Sends requests with one API key; use it as a context manager, or close it."""

    def __init__(
        self, url: str, *, key: str | None = None, timeout: float = 30.0, transport: httpx.BaseTransport | None = None
    ) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def compact(
        self,
        table: str,
        *,
        catalog: str | None = None,
        namespace: str | None = None,
        strategy: str | None = None,
        options: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **job_options: Any,
    ) -> JobAccepted:
        """Submits a compaction; `job_options` are priority, not_before and max_attempts."""
        target = {"catalog": catalog, "namespace": namespace, "table": table, "strategy": strategy}
        body = {**_drop_none(target), "options": dict(options or {}), **job_options}
        return self._request(JobAccepted, "POST", "/compact", body, headers=_idempotency_header(idempotency_key))

    def act(
        self,
        table: str,
        action: str,
        *,
        options: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **job_options: Any,
    ) -> JobAccepted:
        """Submits any action; `job_options` are priority, not_before and max_attempts."""
        body = {"options": dict(options or {}), **job_options}
        path = f"{_table_path(table)}/actions/{action}"
        return self._request(JobAccepted, "POST", path, body, headers=_idempotency_header(idempotency_key))

    def maintain(
        self, tables: Sequence[str], *, idempotency_key: str | None = None, **options: Any
    ) -> MaintainAccepted:
        """Submits the recommended actions; `options` are actions, priority and dry_run."""
        body = {"tables": list(tables), **options}
        return self._request(MaintainAccepted, "POST", "/maintain", body, headers=_idempotency_header(idempotency_key))

    def jobs(self, **filters: Any) -> JobsView:
        """Filters are state, table, catalog, action, requester, since and until; also limit and before."""
        return self._request(JobsView, "GET", "/jobs", params=filters)

    def job(self, job_id: UUID | str) -> JobView:
        return self._request(JobView, "GET", f"/jobs/{job_id}")

    def job_events(self, job_id: UUID | str) -> JobEvents:
        return self._request(JobEvents, "GET", f"/jobs/{job_id}/events")

    def job_plan(self, job_id: UUID | str) -> JobPlan:
        return self._request(JobPlan, "GET", f"/jobs/{job_id}/plan")

    def cancel(self, job_id: UUID | str) -> JobView:
        return self._request(JobView, "POST", f"/jobs/{job_id}/cancel")

    def retry(self, job_id: UUID | str) -> JobAccepted:
        return self._request(JobAccepted, "POST", f"/jobs/{job_id}/retry")

    def wait(
        self,
        job_id: UUID | str,
        *,
        seconds: float = 3600.0,
        every: float = 1.0,
        watch: Callable[[JobView], object] = lambda _: None,
    ) -> JobView:
        """Polls the job until it has finished; `watch` is called with each response. Raises JobTimeout."""
        deadline = time.monotonic() + seconds
        while True:
            job = self.job(job_id)
            watch(job)
            if job.state.is_final:
                return job
            if time.monotonic() >= deadline:
                raise JobTimeout(job_id, seconds)
            time.sleep(every)

    @contextmanager
    def stream(self, after: int | None = None) -> Iterator[Iterator[ServerEvent]]:
        """Opens the stream of job changes, which is closed at the end of the block."""
        params = _drop_none({"after": after})
        with connect_sse(self._http, "GET", f"{BASE_PATH}/jobs/stream", params=params, timeout=None) as source:
            if source.response.status_code != 200:
                source.response.read()
                raise _parse_problem(source.response)
            yield _read_events(source)

    def tables(self, **filters: Any) -> TablePage:
        """Filters are search, catalog, namespace, issue, severity, action, native_disabled, min_score and max_score.

        Further arguments are sort, limit and cursor.
        """
        return self._request(TablePage, "GET", "/tables", params=filters)

    def table(self, table: str) -> TableView:
        return self._request(TableView, "GET", _table_path(table))

    def plan(self, table: str) -> PlanView:
        return self._request(PlanView, "GET", f"{_table_path(table)}/plan")

    def history(self, table: str, *, limit: int = 20, before: datetime | None = None) -> HistoryView:
        params = {"limit": limit, "before": before.isoformat() if before else None}
        return self._request(HistoryView, "GET", f"{_table_path(table)}/history", params=params)

    def snapshots(self, table: str) -> SnapshotsView:
        return self._request(SnapshotsView, "GET", f"{_table_path(table)}/snapshots")

    def histogram(self, table: str) -> HistogramView:
        return self._request(HistogramView, "GET", f"{_table_path(table)}/files/histogram")

    def partitions(self, table: str, *, limit: int = 100, offset: int = 0) -> PartitionPage:
        params = {"limit": limit, "offset": offset}
        return self._request(PartitionPage, "GET", f"{_table_path(table)}/partitions", params=params)

    def overview(self) -> OverviewView:
        return self._request(OverviewView, "GET", "/overview")

    def cost(self, days: int = 30) -> CostView:
        return self._request(CostView, "GET", "/cost", params={"days": days})

    def locks(self) -> LocksView:
        return self._request(LocksView, "GET", "/locks")

    def audit(self, **filters: Any) -> AuditPage:
        """Filters are actor, action, subject and since; also limit and before."""
        return self._request(AuditPage, "GET", "/audit", params=filters)

    def policies(self) -> PoliciesView:
        return self._request(PoliciesView, "GET", "/policies")

    def put_policies(self, overrides: Sequence[Mapping[str, Any]], *, version: int | None = None) -> PoliciesView:
        body = {"overrides": [dict(item) for item in overrides], **_drop_none({"version": version})}
        return self._request(PoliciesView, "PUT", "/policies", body)

    def preview_policies(self, overrides: Sequence[Mapping[str, Any]], *, limit: int = 50) -> PolicyPreviewView:
        """Returns what the overrides would change, without saving them."""
        body = {"overrides": [dict(item) for item in overrides]}
        return self._request(PolicyPreviewView, "POST", "/policies/preview", body, params={"limit": limit})

    def preview_schedules(
        self, overrides: Sequence[Mapping[str, Any]], *, hours: int = 168, limit: int = 100
    ) -> SchedulePreviewView:
        """Returns what the overrides would change, without saving them."""
        body = {"overrides": [dict(item) for item in overrides]}
        params = {"hours": hours, "limit": limit}
        return self._request(SchedulePreviewView, "POST", "/schedules/preview", body, params=params)

    def schedules(self) -> SchedulesView:
        return self._request(SchedulesView, "GET", "/schedules")

    def put_schedules(self, overrides: Sequence[Mapping[str, Any]], *, version: int | None = None) -> SchedulesView:
        body = {"overrides": [dict(item) for item in overrides], **_drop_none({"version": version})}
        return self._request(SchedulesView, "PUT", "/schedules", body)

    def upcoming(self, table: str | None = None, *, hours: int = 24, limit: int = 100) -> UpcomingView:
        params = {"table": table, "hours": hours, "limit": limit}
        return self._request(UpcomingView, "GET", "/schedule/upcoming", params=params)

    def settings(self) -> SettingsView:
        return self._request(SettingsView, "GET", "/settings")

    def start_checks(self) -> ChecksView:
        """Starts the slow checks; `settings` returns their results."""
        return self._request(ChecksView, "POST", "/settings/checks")

    def keys(self) -> KeysView:
        return self._request(KeysView, "GET", "/keys")

    def create_key(self, name: str, **options: Any) -> CreatedKey:
        """Creates a key with role, scopes and expires_in; only this response contains its secret, `key`."""
        return self._request(CreatedKey, "POST", "/keys", {"name": name, **options})

    def revoke_key(self, key_id: str) -> KeyView:
        return self._request(KeyView, "DELETE", f"/keys/{quote(key_id, safe='')}")

    def open_session(self, key: str) -> SessionView:
        """Signs in; this client keeps the session cookie."""
        return self._request(SessionView, "POST", "/session", {"key": key})

    def session(self) -> SessionView:
        return self._request(SessionView, "GET", "/session")

    def end_session(self) -> None:
        self._send_checked("DELETE", "/session")

    def health(self) -> Liveness:
        return self._request(Liveness, "GET", "/health")

    def ready(self) -> Readiness:
        """Returns the readiness also if the service is unavailable (503)."""
        response = self._send("GET", "/health/ready")
        if response.status_code not in (200, 503):
            raise _parse_problem(response)
        return Readiness.model_validate_json(response.content)

    def metrics(self) -> str:
        return self._send_checked("GET", "/metrics").text

    def _request(self, model: type[M], method: str, path: str, body: Any = None, **options: Any) -> M:
        # Python's JSON parser accepts the unpaired surrogates that a table's properties may hold; pydantic's does not.
        return model.model_validate(self._send_checked(method, path, body, **options).json())

    def _send_checked(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        response = self._send(method, path, body, **options)
        if response.is_success:
            return response
        raise _parse_problem(response)

    def _send(self, method: str, path: str, body: Any = None, **options: Any) -> httpx.Response:
        arguments: dict[str, Any] = {
            name: _drop_none(value) if name == "params" else value for name, value in options.items()
        }
        try:
            return self._http.request(method, BASE_PATH + path, json=body, **arguments)
        except httpx.HTTPError as exc:
            raise EnvironmentFault(
                f"Cannot reach the API at {self._http.base_url}: {exc}.", "Check the URL and that the service runs."
            ) from exc


def _drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _idempotency_header(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}


def _table_path(name: str) -> str:
    return f"/tables/{quote(name, safe='')}"


def _parse_problem(response: httpx.Response) -> ApiProblem:
    try:
        return ApiProblem(Problem.model_validate_json(response.content))
    except ValueError:
        detail = f"The server returned status {response.status_code} without problem details; is it an icepack service?"
        return ApiProblem(Problem(type="about:blank", title="Unknown", status=response.status_code, detail=detail))


def _read_events(source: EventSource) -> Iterator[ServerEvent]:
    for event in source.iter_sse():
        # Retry hints and keep-alive comments arrive as events without data.
        if event.data:
            # The decoder repeats the last id for events that have none, such as progress.
            number = int(event.id) if event.event == JOB_EVENT else None
            yield ServerEvent(event.event, event.json(), number)
