"""Where the native rewrite is off, and what runs have proven, as the API shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import quote
from uuid import uuid4

import pytest

from contract.records import MISMATCH, VALUE_PROOF
from icepack.api.schemas.fleet import HistoryView, OverviewView, TableView
from icepack.domain.access import Role
from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobState
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.domain.verification import NativeDisabled

from .service import ITEMS, LEASE, LOG, ODD, ORDERS, SALES, TABLES, Service

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def off(table: object) -> NativeDisabled:
    return NativeDisabled(
        table=table,  # type: ignore[arg-type]
        table_uuid="u",
        disabled_at=NOW,
        reason="Values of price differ.",
        job_id=uuid4(),
        mismatch=MISMATCH,
    )


@pytest.fixture
def disabled(service: Service) -> NativeDisabled:
    entry = off(ODD)
    service.stores.verification.disable_native(entry)
    return entry


class TestNativeDisabled:
    def test_it_is_on_unless_it_was_switched_off(self, service: Service) -> None:
        assert service.get("/tables/orders").json()["native_disabled"] is None
        assert [item["native_disabled"] for item in service.get("/tables").json()["tables"]] == [False] * len(TABLES)
        assert service.get("/overview").json()["native_disabled"] == 0

    def test_a_table_says_since_when_why_and_what_differed(self, service: Service, disabled: NativeDisabled) -> None:
        answer = service.get(f"/tables/{quote(str(ODD), safe='')}").json()
        assert answer["native_disabled"] == to_json(disabled)
        assert TableView.model_validate(answer).native_disabled == disabled

    def test_lists_mark_it(self, service: Service, disabled: NativeDisabled) -> None:
        marked = {item["table_name"]: item["native_disabled"] for item in service.get("/tables").json()["tables"]}
        assert [name for name, is_off in marked.items() if is_off] == [str(ODD)]
        overview = service.get("/overview").json()
        assert overview["native_disabled"] == 1
        assert [item["table_name"] for item in overview["sickest"] if item["native_disabled"]] == [str(ODD)]
        OverviewView.model_validate(overview)

    def test_a_table_at_work_is_marked_too(self, service: Service) -> None:
        service.stores.verification.disable_native(off(ORDERS))
        assert service.stores.jobs.claim("worker", LEASE) is not None
        found = {item["table_name"]: item for item in service.get("/tables").json()["tables"]}
        assert found[str(ORDERS)]["native_disabled"] is True
        assert found[str(ORDERS)]["running"] is not None

    @pytest.mark.parametrize(("asked", "names"), [("true", {ODD}), ("false", {ORDERS, ITEMS, LOG})])
    def test_a_list_is_narrowed_by_it(
        self, service: Service, disabled: NativeDisabled, asked: str, names: set[object]
    ) -> None:
        found = service.get("/tables", params={"native_disabled": asked}).json()["tables"]
        assert {item["table_name"] for item in found} == {str(name) for name in names}

    def test_a_narrowed_list_is_not_remembered_beyond_a_change(self, service: Service) -> None:
        narrowed = {"native_disabled": "true"}
        assert service.get("/tables", params=narrowed).json()["total"] == 0
        service.stores.verification.disable_native(off(ITEMS))
        service.app.fleet_figures._native_disabled._entries.clear()
        assert service.get("/tables", params=narrowed).json()["total"] == 1

    def test_nobody_is_told_of_tables_that_they_may_not_see(self, guarded: Service) -> None:
        guarded.stores.verification.disable_native(off(ODD))
        guarded.stores.verification.disable_native(off(ITEMS))
        headers = guarded.key(Role.VIEWER, SALES)
        assert guarded.get("/overview", headers=headers).json()["native_disabled"] == 1
        narrowed = guarded.get("/tables", params={"native_disabled": "true"}, headers=headers).json()["tables"]
        assert [item["table_name"] for item in narrowed] == [str(ITEMS)]

    def test_the_metrics_count_it(self, service: Service, disabled: NativeDisabled) -> None:
        assert "icepack_native_disabled_tables 1" in service.get("/metrics").text


class TestValueProof:
    def test_a_run_says_what_was_proven_and_an_old_one_says_nothing(self, service: Service) -> None:
        record = RunRecord(
            job_id=uuid4(),
            table=ORDERS,
            action=Compact(),
            state=RunState.SUCCEEDED,
            started_at=datetime.now(UTC),
            value_proof=VALUE_PROOF,
        )
        service.stores.history.save(record)
        answer = service.get("/tables/orders/history").json()
        assert [run["value_proof"] for run in answer["runs"]] == [to_json(VALUE_PROOF), None]
        first = HistoryView.model_validate(answer).runs[0].value_proof
        assert first is not None
        assert first.sentence == "12 groups, rows counted in all, values compared in 4"

    def test_a_job_s_result_says_it(self, service: Service) -> None:
        claim = service.stores.jobs.claim("worker", LEASE)
        assert claim is not None
        record = RunRecord(
            job_id=claim.job_id,
            table=claim.table,
            action=claim.job.action,
            state=RunState.SUCCEEDED,
            started_at=NOW,
            value_proof=VALUE_PROOF,
        )
        service.stores.jobs.finish(claim, JobOutcome(state=JobState.SUCCEEDED, details=to_json(record)))
        details = service.get(f"/jobs/{claim.job_id}").json()["details"]
        assert details["value_proof"] == to_json(VALUE_PROOF)
