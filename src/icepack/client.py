"""A small typed client of the API, with one method for each of its operations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self, TypeVar
from urllib.parse import quote
from uuid import UUID

import httpx
from pydantic import BaseModel

from icepack.api.schemas.fleet import (
    AuditPage,
    CostView,
    HistogramView,
    HistoryView,
    JobPlan,
    LocksView,
    OverviewView,
    PartitionPage,
    PlanView,
    PoliciesView,
    PolicyPreviewView,
    SchedulePreviewView,
    SchedulesView,
    SnapshotsView,
    TablePage,
    TableView,
    UpcomingView,
)
from icepack.api.schemas.jobs import (
    JobAccepted,
    JobEvents,
    JobPage,
    JobView,
    Liveness,
    MaintainAccepted,
    Problem,
    Readiness,
    SessionView,
)
from icepack.api.schemas.keys import ChecksView, KeyMade, KeysView, KeyView, SettingsShown
from icepack.errors import EnvironmentFault, IcepackError

BASE = "/api/v1"
M = TypeVar("M", bound=BaseModel)


class ApiProblem(IcepackError):
    """The service said no; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @property
    def status(self) -> int:
        return self.problem.status


class JobTimeout(IcepackError):
    def __init__(self, job_id: UUID | str, seconds: float) -> None:
        super().__init__(f"Job {job_id} has not ended within {seconds:.0f} seconds.", "It goes on; ask for it again.")


@dataclass(frozen=True, slots=True)
class News:
    """One item of the stream: a step of a job's story, or its progress."""

    kind: str
    document: dict[str, Any]
    number: int | None = None


class Client:
    """Speaks for one key; use it as a context manager, or close it."""

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
        **wishes: Any,
    ) -> JobAccepted:
        named = {"catalog": catalog, "namespace": namespace, "table": table, "strategy": strategy}
        body = {**_given(named), "options": dict(options or {}), **wishes}
        return self._ask(JobAccepted, "POST", "/compact", body, headers=_keyed(idempotency_key))

    def act(
        self,
        table: str,
        action: str,
        *,
        options: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        **wishes: Any,
    ) -> JobAccepted:
        body = {"options": dict(options or {}), **wishes}
        path = f"{_table(table)}/actions/{action}"
        return self._ask(JobAccepted, "POST", path, body, headers=_keyed(idempotency_key))

    def maintain(self, tables: Sequence[str], *, idempotency_key: str | None = None, **wishes: Any) -> MaintainAccepted:
        body = {"tables": list(tables), **wishes}
        return self._ask(MaintainAccepted, "POST", "/maintain", body, headers=_keyed(idempotency_key))

    def jobs(self, **filters: Any) -> JobPage:
        """By state, table, catalog, action and requester; limit, before."""
        return self._ask(JobPage, "GET", "/jobs", params=filters)

    def job(self, job_id: UUID | str) -> JobView:
        return self._ask(JobView, "GET", f"/jobs/{job_id}")

    def job_events(self, job_id: UUID | str) -> JobEvents:
        return self._ask(JobEvents, "GET", f"/jobs/{job_id}/events")

    def job_plan(self, job_id: UUID | str) -> JobPlan:
        return self._ask(JobPlan, "GET", f"/jobs/{job_id}/plan")

    def cancel(self, job_id: UUID | str) -> JobView:
        return self._ask(JobView, "POST", f"/jobs/{job_id}/cancel")

    def retry(self, job_id: UUID | str) -> JobAccepted:
        return self._ask(JobAccepted, "POST", f"/jobs/{job_id}/retry")

    def wait(
        self,
        job_id: UUID | str,
        *,
        seconds: float = 3600.0,
        every: float = 1.0,
        watch: Callable[[JobView], object] = lambda _: None,
    ) -> JobView:
        """The job once it has ended; `watch` sees it each time it is asked for."""
        give_up_at = time.monotonic() + seconds
        while True:
            job = self.job(job_id)
            watch(job)
            if job.state.is_final:
                return job
            if time.monotonic() >= give_up_at:
                raise JobTimeout(job_id, seconds)
            time.sleep(every)

    @contextmanager
    def stream(self, after: int | None = None) -> Iterator[Iterator[News]]:
        """The stream of job changes, while the block lasts."""
        params = _given({"after": after})
        with self._http.stream("GET", f"{BASE}/jobs/stream", params=params, timeout=None) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _problem(answer)
            yield _news(answer.iter_lines())

    def tables(self, **filters: Any) -> TablePage:
        """By search, catalog, namespace, issue, severity, action, native_disabled and scores; sort, limit, cursor."""
        return self._ask(TablePage, "GET", "/tables", params=filters)

    def table(self, table: str) -> TableView:
        return self._ask(TableView, "GET", _table(table))

    def plan(self, table: str) -> PlanView:
        return self._ask(PlanView, "GET", f"{_table(table)}/plan")

    def history(self, table: str, *, limit: int = 20, before: datetime | None = None) -> HistoryView:
        params = {"limit": limit, "before": before.isoformat() if before else None}
        return self._ask(HistoryView, "GET", f"{_table(table)}/history", params=params)

    def snapshots(self, table: str) -> SnapshotsView:
        return self._ask(SnapshotsView, "GET", f"{_table(table)}/snapshots")

    def histogram(self, table: str) -> HistogramView:
        return self._ask(HistogramView, "GET", f"{_table(table)}/files/histogram")

    def partitions(self, table: str, *, limit: int = 100, offset: int = 0) -> PartitionPage:
        params = {"limit": limit, "offset": offset}
        return self._ask(PartitionPage, "GET", f"{_table(table)}/partitions", params=params)

    def overview(self) -> OverviewView:
        return self._ask(OverviewView, "GET", "/overview")

    def cost(self, days: int = 30) -> CostView:
        return self._ask(CostView, "GET", "/cost", params={"days": days})

    def locks(self) -> LocksView:
        return self._ask(LocksView, "GET", "/locks")

    def audit(self, **filters: Any) -> AuditPage:
        """By actor, action, subject and since; limit, before."""
        return self._ask(AuditPage, "GET", "/audit", params=filters)

    def policies(self) -> PoliciesView:
        return self._ask(PoliciesView, "GET", "/policies")

    def put_policies(self, overrides: Sequence[Mapping[str, Any]], *, version: int | None = None) -> PoliciesView:
        body = {"overrides": [dict(item) for item in overrides], **_given({"version": version})}
        return self._ask(PoliciesView, "PUT", "/policies", body)

    def preview_policies(self, overrides: Sequence[Mapping[str, Any]], *, limit: int = 50) -> PolicyPreviewView:
        """What they would change; nothing is saved."""
        body = {"overrides": [dict(item) for item in overrides]}
        return self._ask(PolicyPreviewView, "POST", "/policies/preview", body, params={"limit": limit})

    def preview_schedules(
        self, overrides: Sequence[Mapping[str, Any]], *, hours: int = 168, limit: int = 100
    ) -> SchedulePreviewView:
        body = {"overrides": [dict(item) for item in overrides]}
        params = {"hours": hours, "limit": limit}
        return self._ask(SchedulePreviewView, "POST", "/schedules/preview", body, params=params)

    def schedules(self) -> SchedulesView:
        return self._ask(SchedulesView, "GET", "/schedules")

    def put_schedules(self, overrides: Sequence[Mapping[str, Any]], *, version: int | None = None) -> SchedulesView:
        body = {"overrides": [dict(item) for item in overrides], **_given({"version": version})}
        return self._ask(SchedulesView, "PUT", "/schedules", body)

    def upcoming(self, table: str | None = None, *, hours: int = 24, limit: int = 100) -> UpcomingView:
        params = {"table": table, "hours": hours, "limit": limit}
        return self._ask(UpcomingView, "GET", "/schedule/upcoming", params=params)

    def settings(self) -> SettingsShown:
        return self._ask(SettingsShown, "GET", "/settings")

    def start_checks(self) -> ChecksView:
        """The slow ones; what they find, `settings` shows."""
        return self._ask(ChecksView, "POST", "/settings/checks")

    def keys(self) -> KeysView:
        return self._ask(KeysView, "GET", "/keys")

    def create_key(self, name: str, **wishes: Any) -> KeyMade:
        """With role, scopes and expires_in; its `key` is never shown again."""
        return self._ask(KeyMade, "POST", "/keys", {"name": name, **wishes})

    def revoke_key(self, key_id: str) -> KeyView:
        return self._ask(KeyView, "DELETE", f"/keys/{quote(key_id, safe='')}")

    def open_session(self, key: str) -> SessionView:
        """Signs in: the cookie is kept by this client."""
        return self._ask(SessionView, "POST", "/session", {"key": key})

    def session(self) -> SessionView:
        return self._ask(SessionView, "GET", "/session")

    def end_session(self) -> None:
        self._send("DELETE", "/session")

    def health(self) -> Liveness:
        return self._ask(Liveness, "GET", "/health")

    def ready(self) -> Readiness:
        """Also when it is not: then its status says so."""
        answer = self._exchange("GET", "/health/ready")
        if answer.status_code not in (200, 503):
            raise _problem(answer)
        return Readiness.model_validate_json(answer.content)

    def metrics(self) -> str:
        return self._send("GET", "/metrics").text

    def _ask(self, shape: type[M], method: str, path: str, body: Any = None, **more: Any) -> M:
        # Python's own parser: it takes what a table's properties may hold, however odd.
        return shape.model_validate(self._send(method, path, body, **more).json())

    def _send(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        answer = self._exchange(method, path, body, **more)
        if answer.is_success:
            return answer
        raise _problem(answer)

    def _exchange(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        given: dict[str, Any] = {name: _given(it) if name == "params" else it for name, it in more.items()}
        try:
            return self._http.request(method, BASE + path, json=body, **given)
        except httpx.HTTPError as exc:
            raise EnvironmentFault(f"The API at {self._http.base_url} does not answer: {exc}.") from exc


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _keyed(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Idempotency-Key": key}


def _table(name: str) -> str:
    return f"/tables/{quote(name, safe='')}"


def _problem(answer: httpx.Response) -> ApiProblem:
    try:
        return ApiProblem(Problem.model_validate_json(answer.content))
    except ValueError:
        said = f"The service answered {answer.status_code}, and not as icepack does."
        return ApiProblem(Problem(type="about:blank", title="Unknown", status=answer.status_code, detail=said))


def _news(lines: Iterator[str]) -> Iterator[News]:
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif not line and "data" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield News(fields.get("event", "message"), json.loads(fields["data"]), number)
            fields = {}
