"""The native commands, and where other commands show value proofs and disabled native rewrites."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from contract.sample_runs import MISMATCH, VALUE_PROOF
from icepack.cli.output.runs import show_record
from icepack.domain.actions import Compact
from icepack.domain.job import JobOutcome, JobRequest, JobState
from icepack.domain.run import RunRecord, RunState
from icepack.domain.serialization import to_json
from icepack.domain.table import TableId
from icepack.domain.verification import NativeDisabled, NativeFailure, ProofLevel, ValueProof
from icepack.store.backend import Stores, open_stores

from .conftest import Call

ORDERS = TableId("lake", ("sales",), "orders")
NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
DISABLED = NativeDisabled(
    table=ORDERS, table_uuid="u", disabled_at=NOW, reason="Values of price differ.", mismatch=MISMATCH
)
PROOF = ValueProof(
    level=ProofLevel.SAMPLED, groups=12, groups_compared=2, rows_compared=4000, reasons={"new_class": 1, "sample": 1}
)


@pytest.fixture
def state(lake: Path, tmp_path: Path) -> Stores:
    config = tmp_path / "icepack.yaml"
    url = f"sqlite:///{tmp_path / 'state.db'}"
    config.write_text(f"{config.read_text()}state:\n  url: {url}\n")
    return open_stores(url)


def record(proof: ValueProof | None, message: str = "") -> RunRecord:
    return RunRecord(
        job_id=uuid4(),
        table=ORDERS,
        action=Compact(),
        state=RunState.SUCCEEDED,
        started_at=NOW,
        message=message,
        value_proof=proof,
    )


class TestCommands:
    def test_without_disabled_tables_it_says_so(self, call: Call, state: Stores) -> None:
        assert call("native", "list").out.strip() == "The native rewrite is enabled for every table."
        assert call("native", "list", "--format", "json").json == {"native_disabled": []}

    def test_the_list_shows_the_reason(self, call: Call, state: Stores) -> None:
        state.verification.disable_native(DISABLED)
        assert "Values of price differ." in call("native", "list").out
        assert call("native", "list", "--format", "json").json == {"native_disabled": [to_json(DISABLED)]}

    def test_it_is_disabled_and_enabled_again(self, call: Call, state: Stores) -> None:
        answer = call("native", "disable", "orders", "--reason", "Under suspicion.")
        assert answer.out.strip() == "The native rewrite of lake.sales.orders is disabled."
        (entry,) = state.verification.all_native_disabled()
        assert (entry.table, entry.reason, entry.mismatch) == (ORDERS, "Under suspicion.", None)
        assert len(entry.table_uuid) == 36
        assert (
            call("native", "enable", "orders").out.strip()
            == "The native rewrite of lake.sales.orders is enabled again."
        )
        assert state.verification.all_native_disabled() == []
        assert [entry.action for entry in state.audit.entries()] == ["native.enable", "native.disable"]

    def test_an_entry_after_a_mismatch_is_not_overwritten(self, call: Call, state: Stores) -> None:
        state.verification.disable_native(DISABLED)
        answer = call("native", "disable", "orders", "--reason", "Me too.", "--format", "json").json
        assert answer == {"native_disabled": to_json(DISABLED), "changed": False}
        assert state.verification.native_disabled(ORDERS) == DISABLED

    def test_enabling_an_enabled_table_is_no_error(self, call: Call, state: Stores) -> None:
        answer = call("native", "enable", "orders")
        assert (answer.code, answer.out.strip()) == (0, "The native rewrite of lake.sales.orders was not disabled.")
        assert state.audit.entries() == []

    def test_a_dropped_table_can_be_enabled(self, call: Call, state: Stores) -> None:
        gone = TableId("lake", ("sales",), "gone")
        state.verification.disable_native(NativeDisabled(table=gone, table_uuid="u", disabled_at=NOW, reason=""))
        assert call("native", "enable", "gone", "--format", "json").json == {"table": str(gone), "enabled": True}

    def test_an_unknown_table_is_a_usage_error(self, call: Call, state: Stores) -> None:
        assert call("native", "enable", "nope").code == 2
        assert call("native", "disable", "nope", "--reason", "x").code == 2


class TestOtherCommands:
    def test_health_says_that_it_is_disabled(self, call: Call, state: Stores) -> None:
        state.verification.disable_native(DISABLED)
        answer = call("health")
        assert answer.code == 0
        text = " ".join(answer.out.split())
        assert "The native rewrite of lake.sales.orders is disabled since 2026-11-18 12:00 UTC: Values of price" in text
        assert "icepack native enable lake.sales.orders" in text
        found = {item["table"]: item["native_disabled"] for item in call("health", "--format", "json").json["tables"]}
        assert found == {"lake.sales.orders": to_json(DISABLED), "lake.sales.customers": None}

    def test_doctor_accepts_a_table_that_was_disabled_manually(self, call: Call, state: Stores) -> None:
        found = {check["name"]: check for check in call("doctor", "--skip-spark", "--format", "json").json["checks"]}
        assert found["native rewrite"]["found"] == "enabled for every table"
        state.verification.disable_native(NativeDisabled(table=ORDERS, table_uuid="", disabled_at=NOW, reason="x"))
        found = {check["name"]: check for check in call("doctor", "--skip-spark", "--format", "json").json["checks"]}
        assert (found["native rewrite"]["ok"], found["native rewrite"]["found"]) == (
            True,
            "disabled for lake.sales.orders",
        )

    def test_doctor_fails_after_a_mismatch(self, call: Call, state: Stores) -> None:
        state.verification.disable_native(DISABLED)
        answer = call("doctor", "--skip-spark")
        assert answer.code == 1
        assert "native rewrite: disabled for lake.sales.orders; values differed on 1" in " ".join(answer.out.split())
        assert "icepack verify lake.sales.orders --repeat" in " ".join(answer.out.split())


class TestValueProofs:
    def test_history_shows_the_proof_of_runs_that_have_one(self, call: Call, state: Stores) -> None:
        state.history.save(record(PROOF))
        state.history.save(record(None))
        text = " ".join(call("history").out.replace("│", " ").split())
        assert text.count("rows counted") == 1
        values = [run["value_proof"] for run in call("history", "--format", "json").json["runs"]]
        assert sorted(values, key=bool) == [None, to_json(PROOF)]

    def test_a_run_shows_what_was_compared_and_why(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_record(record(PROOF))
        text = " ".join(capsys.readouterr().out.split())
        assert "✓ sales.orders: compact — 12 groups, rows counted in all, values compared in 2" in text
        assert "values: 4,000 rows compared (new class 1, sample 1)" in text

    def test_a_run_that_rewrote_nothing_has_no_proof(self, capsys: pytest.CaptureFixture[str]) -> None:
        show_record(record(ValueProof(level=ProofLevel.FULL)))
        assert "0 groups" not in capsys.readouterr().out

    def test_failures_and_differences_are_listed(self, capsys: pytest.CaptureFixture[str]) -> None:
        failures = (NativeFailure(partition="day=1", error="ArrowInvalid: no"),)
        show_record(record(ValueProof(level=ProofLevel.FULL, failures=failures, mismatch=MISMATCH), "It differs."))
        text = " ".join(capsys.readouterr().out.split())
        assert "! sales.orders: compact — It differs." in text
        assert "native rewrite of day=1 failed, Spark's procedure was used instead: ArrowInvalid: no" in text
        assert "different: größe hash_1: -1 before, 9223372036854775807 after" in text

    def test_a_job_shows_the_proof_of_its_run(self, call: Call, state: Stores) -> None:
        ids = []
        for proof in (PROOF, None):
            state.jobs.submit(JobRequest(table=ORDERS, action=Compact()))
            claim = state.jobs.claim("worker", timedelta(minutes=1))
            assert claim is not None
            outcome = JobOutcome(state=JobState.SUCCEEDED, details=to_json(record(proof)))
            state.jobs.finish(claim, outcome)
            ids.append(str(claim.job_id))
        assert "value proof: 12 groups, rows counted in all, values compared in 2" in call("jobs", "show", ids[0]).out
        assert "value proof" not in call("jobs", "show", ids[1]).out

    def test_the_whole_proof_survives_the_store(self, state: Stores) -> None:
        state.history.save(record(VALUE_PROOF))
        assert state.history.runs()[0].value_proof == VALUE_PROOF
