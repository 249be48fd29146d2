"""Proof that no row changed: each of our commits beside its own parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

from icepack.domain.ports.engine import ActionEngine
from icepack.domain.run import CommitFacts, Proof
from icepack.domain.status import TableStatus
from icepack.domain.table import TableId
from icepack.domain.verification import Mismatch, ValueProof
from icepack.errors import RowsChanged

# The method of a proof for which the values of both snapshots were compared.
VALUES = "values"
# How many columns a message names.
MOST_COLUMNS = 5


def prove(
    table: TableId, commits: Sequence[CommitFacts], engine: ActionEngine, *, by_value: bool = False
) -> tuple[Proof, ...]:
    """Raises RowsChanged on the first commit that does not hold, after trying to take it back.

    `by_value` also compares the values of commits that no check before the commit has compared.
    """
    proofs: list[Proof] = []
    for commit in commits:
        found = _proofs_of(table, commit, engine)
        proofs.extend(found)
        broken = next((proof for proof in found if not proof.holds), None)
        if broken is not None:
            raise _alarm(table, commit, broken, engine)
        if by_value and commit.parent_known and commit.touches_files and not commit.is_native:
            proofs.append(_compare_values(table, commit, engine))
    return tuple(proofs)


def _compare_values(table: TableId, commit: CommitFacts, engine: ActionEngine) -> Proof:
    assert commit.parent_id is not None
    found = engine.compare_values(table, commit.parent_id, commit.snapshot_id)
    if not found.is_equal:
        columns = ", ".join(dict.fromkeys(difference.column for difference in found.differences))
        raise RowsChanged(
            f"Snapshot {commit.snapshot_id} of {table} changed values of {columns}. {_take_back(table, commit, engine)}"
        )
    return Proof(method=VALUES, rows_before=found.rows_before, rows_after=found.rows_after)


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


def carry_over(earlier: ValueProof | None, proof: ValueProof) -> ValueProof:
    """The newer proof, with the mismatch that an earlier attempt of the same run found."""
    if earlier is None or earlier.mismatch is None or proof.mismatch is not None:
        return proof
    return replace(proof, mismatch=earlier.mismatch)


def mismatch_message(table: TableId, mismatch: Mismatch, *, replaced: bool) -> str:
    """What a mismatch means for the run and the table, and the command that repeats the check."""
    done = "Spark's procedure did the work, and the" if replaced else "The"
    return (
        f"The native rewrite changed {_changed(mismatch)}; nothing of it was committed. "
        f"{done} native rewrite is off for this table. "
        f"To repeat the check: icepack verify {quote(str(table))} --repeat"
    )


def _changed(mismatch: Mismatch) -> str:
    columns = [column for column in mismatch.columns if column]
    if not columns:
        return f"rows: {mismatch.rows_before:,} before, {mismatch.rows_after:,} after"
    named = ", ".join(columns[:MOST_COLUMNS])
    more = f" and {len(columns) - MOST_COLUMNS} more" if len(columns) > MOST_COLUMNS else ""
    return f"values of {'column' if len(columns) == 1 else 'columns'} {named}{more}"
