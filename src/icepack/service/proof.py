"""Proof that no row changed: each of our commits beside its own parent."""

from __future__ import annotations

from collections.abc import Sequence

from icepack.domain.ports import ActionEngine
from icepack.domain.run import CommitFacts, Proof
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.errors import RowsChanged


def prove(table: TableId, commits: Sequence[CommitFacts], engine: ActionEngine) -> tuple[Proof, ...]:
    """Raises RowsChanged on the first commit that does not hold, after trying to take it back."""
    proofs: list[Proof] = []
    for commit in commits:
        found = _proofs_of(table, commit, engine)
        proofs.extend(found)
        broken = next((proof for proof in found if not proof.holds), None)
        if broken is not None:
            raise _alarm(table, commit, broken, engine)
    return tuple(proofs)


def _proofs_of(table: TableId, commit: CommitFacts, engine: ActionEngine) -> list[Proof]:
    if not commit.parent_known:
        return [Proof(method="unprovable: the parent snapshot has expired", rows_before=0, rows_after=0)]
    if not commit.touches_files:
        return [
            Proof(method="live files", rows_before=commit.live_files_before, rows_after=commit.live_files_after),
            Proof(method="live records", rows_before=commit.live_records_before, rows_after=commit.live_records_after),
        ]
    if commit.deletes_before == 0 and commit.added_delete_files == 0:
        return [Proof(method="records", rows_before=commit.removed_records, rows_after=commit.added_records)]
    if commit.rows_dropped is not None and commit.added_delete_files == 0:
        kept = commit.added_records + commit.rows_dropped
        return [Proof(method="records and dropped rows", rows_before=commit.removed_records, rows_after=kept)]
    assert commit.parent_id is not None
    return [
        Proof(
            method="counted rows",
            rows_before=engine.count_rows(table, commit.parent_id),
            rows_after=engine.count_rows(table, commit.snapshot_id),
        )
    ]


def prove_expiry(before: TableStatus, after: TableStatus) -> tuple[Proof, ...]:
    """Every branch and tag that is still there still has its snapshot."""
    present = {entry.snapshot_id for entry in after.snapshots.entries}
    heads = [ref.snapshot_id for ref in after.snapshots.refs]
    kept = sum(1 for head in heads if head in present)
    proof = Proof(method="heads of branches and tags", rows_before=len(heads), rows_after=kept)
    if not proof.holds:
        raise RowsChanged(f"After expiry, {len(heads) - kept} branches or tags of {before.table} have no snapshot.")
    return (proof,)


def _alarm(table: TableId, commit: CommitFacts, broken: Proof, engine: ActionEngine) -> RowsChanged:
    return RowsChanged(
        f"Snapshot {commit.snapshot_id} of {table} changed its rows: {broken.rows_before:,} before, "
        f"{broken.rows_after:,} after ({broken.method}). {_take_back(table, commit, engine)}"
    )


def _take_back(table: TableId, commit: CommitFacts, engine: ActionEngine) -> str:
    """What became of the commit, in words; nothing that goes wrong here may hide the alarm."""
    assert commit.parent_id is not None
    try:
        taken_back = engine.roll_back(table, commit.snapshot_id, commit.parent_id)
    except Exception as exc:
        return f"It could not be taken back ({exc}); keep every file and do not expire snapshots."
    if taken_back:
        return f"The commit was taken back; {table} is at snapshot {commit.parent_id} again."
    return "Another commit came after it, so nothing was taken back; keep every file and do not expire snapshots."
