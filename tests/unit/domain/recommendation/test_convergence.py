"""A second `maintain` right after the first finds nothing to do, even without the history of the first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from domain.factories import DAY, HOUR, NOW, deletes, history, partition, snapshots, status
from icepack.domain.actions import ActionKind, Compact, commits_snapshot
from icepack.domain.health import assess_health, count_ideal_manifests
from icepack.domain.plan.cost import CostModel
from icepack.domain.plan.expiry import find_expired_snapshots
from icepack.domain.plan.select import count_files_needed
from icepack.domain.policy import Policy
from icepack.domain.recommendation import PastRun, Situation, recommend
from icepack.domain.status import ManifestStatus, PartitionStatus, SnapshotEntry, TableStatus
from icepack.domain.units import MIB

MINUTE = timedelta(minutes=1)


@dataclass
class Lake:
    """One table on which every action has exactly its expected effect."""

    table: TableStatus
    policy: Policy
    now: object = NOW
    runs: list[PastRun] = field(default_factory=list)

    def recommend(self, remembered):
        kept = [run for run in self.runs if run.kind in remembered]
        return recommend(
            Situation(
                status=self.table,
                health=assess_health(self.table, self.now),
                policy=self.policy,
                history=kept,
                model=CostModel(),
                now=self.now,
            )
        )

    def maintain(self):
        for recommended in self.recommend(ActionKind).actions:
            self.now += MINUTE
            self.run(recommended.action)
            head = self.table.snapshot_id
            run = PastRun(kind=recommended.kind, finished_at=self.now, snapshot_id_after=head, changed_nothing=False)
            self.runs.append(run)
        self.now += MINUTE

    def run(self, action):
        if commits_snapshot(action.kind):
            self.commit("replace", job_id="ours")
        match action.kind:
            case ActionKind.COMPACT:
                self.compact(action)
            case ActionKind.REWRITE_POSITION_DELETES:
                self.rewrite([self.merged(row) for row in self.table.partitions], dangling=0)
            case ActionKind.REWRITE_MANIFESTS:
                count = count_ideal_manifests(self.table)
                self.table = replace(self.table, manifests=replace(self.table.manifests, count=count))
            case ActionKind.EXPIRE_SNAPSHOTS:
                self.expire(action)

    def commit(self, operation, job_id=None):
        found = self.table.snapshots
        new = max(item.snapshot_id for item in found.entries) + 1
        added = SnapshotEntry(
            snapshot_id=new,
            parent_id=self.table.snapshot_id,
            committed_at=self.now,
            operation=operation,
            job_id=job_id,
        )
        refs = [replace(ref, snapshot_id=new) if ref.name == "main" else ref for ref in found.refs]
        manifests = replace(self.table.manifests, count=self.table.manifests.count + 1)
        line = snapshots([*found.entries, added], refs)
        self.table = replace(self.table, snapshots=line, snapshot_id=new, manifests=manifests)

    def compact(self, action: Compact):
        chosen = {selection.key for selection in action.partitions}
        self.rewrite(
            [self.compacted(row, action) if not chosen or row.key in chosen else row for row in self.table.partitions],
            dangling=self.table.deletes.dangling_files,
        )

    def compacted(self, row: PartitionStatus, action: Compact):
        files, size = row.small_files, row.small_bytes
        if action.delete_file_threshold is not None:
            files, size = row.data_files, row.bytes
            none = {"position_delete_files": 0, "files_with_deletes": 0, "bytes_with_deletes": 0, "delete_records": 0}
            row = replace(row, **none)
        elif row.small_files < action.min_input_files and row.small_bytes < self.table.target_file_bytes:
            return row
        written = count_files_needed(size, self.table.target_file_bytes)
        is_small = written and size // written < self.table.small_file_bytes
        return replace(
            row,
            data_files=row.data_files - files + written,
            small_files=written if is_small else 0,
            small_bytes=size if is_small else 0,
        )

    def merged(self, row: PartitionStatus):
        many = row.position_delete_files >= max(self.policy.min_input_files, 2)
        return replace(row, position_delete_files=1) if many else row

    def rewrite(self, rows, dangling):
        fresh = status(*rows)
        self.table = replace(
            self.table, partitions=tuple(rows), data=fresh.data, deletes=deletes(rows, dangling=dangling)
        )

    def expire(self, action):
        found = self.table.snapshots
        gone = find_expired_snapshots(found, older_than=action.older_than, retain_last=action.retain_last, now=self.now)
        kept = [item for item in found.entries if item.snapshot_id not in gone]
        self.table = replace(self.table, snapshots=snapshots(kept, found.refs))


@st.composite
def rows(draw, number):
    small = draw(st.integers(0, 120))
    size = draw(st.integers(1, 32 * MIB - 1))
    touched = draw(st.integers(0, 3))
    return partition(
        f"p={number}",
        data_files=small + 3,
        bytes=small * size + 3 * 500 * MIB,
        small_files=small,
        small_bytes=small * size,
        position_delete_files=draw(st.integers(1, 30)) if touched else 0,
        files_with_deletes=touched,
        bytes_with_deletes=touched * 500 * MIB,
        delete_records=draw(st.integers(1, 900)) if touched else 0,
        ends_at=draw(st.none() | st.integers(-5, 2).map(lambda days: NOW + days * DAY)),
    )


@st.composite
def lakes(draw):
    found = [draw(rows(number)) for number in range(draw(st.integers(1, 4)))]
    ages = sorted((draw(st.integers(0, 30)) * DAY + HOUR for _ in range(draw(st.integers(1, 6)))), reverse=True)
    table = status(
        *found,
        deletes=deletes(found, dangling=draw(st.integers(0, 2))),
        snapshots=history(*ages),
        snapshot_id=len(ages),
        manifests=ManifestStatus(count=draw(st.integers(1, 30)), bytes=MIB),
        target_file_bytes=draw(st.sampled_from([40, 64, 512])) * MIB,
    )
    policy = Policy(min_input_files=draw(st.integers(1, 8)), min_snapshots_to_keep=draw(st.integers(1, 3)))
    return Lake(table=replace(table, small_file_bytes=min(32 * MIB, table.target_file_bytes * 3 // 4)), policy=policy)


@given(lakes())
def test_a_second_maintain_finds_nothing_even_if_it_remembers_only_the_orphan_search(lake):
    lake.maintain()
    again = lake.recommend(remembered={ActionKind.REMOVE_ORPHAN_FILES})
    assert [action.reason for action in again.actions] == []


@given(lakes())
def test_a_second_maintain_finds_nothing_with_the_whole_history(lake):
    lake.maintain()
    assert lake.recommend(ActionKind).actions == ()


def test_new_writes_after_maintenance_are_seen_at_once():
    unhealthy = partition("p=0", data_files=100, bytes=100 * MIB, small_files=100, small_bytes=100 * MIB)
    lake = Lake(table=status(unhealthy), policy=Policy())
    lake.maintain()
    assert lake.recommend(ActionKind).actions == ()
    lake.commit("append")
    lake.rewrite([unhealthy], dangling=0)
    assert [action.kind for action in lake.recommend(ActionKind).actions] == [ActionKind.COMPACT]
