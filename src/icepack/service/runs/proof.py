"""Proves that no row changed by comparing each of our commits with its parent."""

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

# The method of a proof that compared the values of both snapshots.
VALUES = "values"
# How many columns a message names.
MAX_NAMED_COLUMNS = 5


def prove_commits(
    table: TableId, commits: Sequence[CommitFacts], engine: ActionEngine, *, by_value: bool = False
) -> tuple[Proof, ...]:
    """Raises RowsChanged for the first commit that changed rows, after trying to roll it back.

    `by_value` also compares the values of commits that were not compared before they were committed.
    """
    proofs: list[Proof] = []
    for commit in commits:
        found = _prove_commit(table, commit, engine)
        proofs.extend(found)
        broken = next((proof for proof in found if not proof.holds), None)
        if broken is not None:
            raise _build_rows_changed(table, commit, broken, engine)
        if by_value and commit.parent_known and commit.touches_files and not commit.is_native:
            proofs.append(_compare_values(table, commit, engine))
    return tuple(proofs)


def _compare_values(table: TableId, commit: CommitFacts, engine: ActionEngine) -> Proof:
    assert commit.parent_id is not None
    comparison = engine.compare_values(table, commit.parent_id, commit.snapshot_id)
    if not comparison.is_equal:
        columns = ", ".join(dict.fromkeys(difference.column for difference in comparison.differences))
        raise RowsChanged(
            f"Snapshot {commit.snapshot_id} of {table} changed values of {columns}. {_roll_back(table, commit, engine)}"
        )
    return Proof(method=VALUES, rows_before=comparison.rows_before, rows_after=comparison.rows_after)


def _prove_commit(table: TableId, commit: CommitFacts, engine: ActionEngine) -> list[Proof]:
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
    return [_count_rows(table, commit, engine)]


def _count_rows(table: TableId, commit: CommitFacts, engine: ActionEngine) -> Proof:
    assert commit.parent_id is not None
    return Proof(
        method="counted rows",
        rows_before=engine.count_rows(table, commit.parent_id),
        rows_after=engine.count_rows(table, commit.snapshot_id),
    )


def prove_expiry(before: TableStatus, after: TableStatus) -> tuple[Proof, ...]:
    """Proves that every remaining branch and tag still has its snapshot."""
    present = {entry.snapshot_id for entry in after.snapshots.entries}
    heads = [ref.snapshot_id for ref in after.snapshots.refs]
    kept = sum(1 for head in heads if head in present)
    proof = Proof(method="heads of branches and tags", rows_before=len(heads), rows_after=kept)
    if not proof.holds:
        raise RowsChanged(f"After expiry, {len(heads) - kept} branches or tags of {before.table} have no snapshot.")
    return (proof,)


def _build_rows_changed(table: TableId, commit: CommitFacts, broken: Proof, engine: ActionEngine) -> RowsChanged:
    return RowsChanged(
        f"Snapshot {commit.snapshot_id} of {table} changed its rows: {broken.rows_before:,} before, "
        f"{broken.rows_after:,} after ({broken.method}). {_roll_back(table, commit, engine)}"
    )


def _roll_back(table: TableId, commit: CommitFacts, engine: ActionEngine) -> str:
    """Tries to roll the commit back and returns the result as a sentence.

    It never raises: no failure here may hide that rows have changed.
    """
    assert commit.parent_id is not None
    try:
        is_rolled_back = engine.roll_back(table, commit.snapshot_id, commit.parent_id)
    except Exception as exc:
        return f"It could not be rolled back ({exc}); keep every file and do not expire snapshots."
    if is_rolled_back:
        return f"The commit was rolled back; {table} is at snapshot {commit.parent_id} again."
    return "Another commit came after it, so it was not rolled back; keep every file and do not expire snapshots."


def keep_earlier_mismatch(earlier: ValueProof | None, proof: ValueProof) -> ValueProof:
    """Returns the newer proof, with the mismatch that an earlier attempt of the same run found."""
    if earlier is None or earlier.mismatch is None or proof.mismatch is not None:
        return proof
    return replace(proof, mismatch=earlier.mismatch)


def build_mismatch_message(table: TableId, mismatch: Mismatch, *, replaced: bool) -> str:
    """Describes what a mismatch means for the run and the table, and which command repeats the check."""
    done = "Spark's procedure did the work, and the" if replaced else "The"
    return (
        f"The native rewrite changed {_describe_mismatch(mismatch)}; nothing of it was committed. "
        f"{done} native rewrite is off for this table. "
        f"To repeat the check: icepack verify {quote(str(table))} --repeat"
    )


def _describe_mismatch(mismatch: Mismatch) -> str:
    columns = [column for column in mismatch.columns if column]
    if not columns:
        return f"rows: {mismatch.rows_before:,} before, {mismatch.rows_after:,} after"
    named = ", ".join(columns[:MAX_NAMED_COLUMNS])
    more = f" and {len(columns) - MAX_NAMED_COLUMNS} more" if len(columns) > MAX_NAMED_COLUMNS else ""
    return f"values of {'column' if len(columns) == 1 else 'columns'} {named}{more}"
