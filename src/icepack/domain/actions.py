"""The six maintenance actions and the parameters that each runs with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from icepack.domain.plan.files import PartitionKey, PartitionValue
from icepack.domain.verification import ProofLevel


class ActionKind(StrEnum):
    """The maintenance actions in the order in which they run: files are deleted after everything is rewritten."""

    COMPACT = "compact"
    REWRITE_POSITION_DELETES = "rewrite_position_deletes"
    REWRITE_MANIFESTS = "rewrite_manifests"
    EXPIRE_SNAPSHOTS = "expire_snapshots"
    REMOVE_ORPHAN_FILES = "remove_orphan_files"
    COMPUTE_STATS = "compute_stats"


ACTION_ORDER = tuple(ActionKind)


class Strategy(StrEnum):
    """Which files a compaction selects."""

    SMALL_FILES = "small_files"
    DELETE_FILES = "delete_files"
    TIME_SERIES = "time_series"

    @classmethod
    def _missing_(cls, value: object) -> Strategy | None:
        return next((member for member in cls if member.value == str(value).replace("-", "_").lower()), None)


class Layout(StrEnum):
    """How a compaction orders the rows that it rewrites."""

    BINPACK = "binpack"
    SORT = "sort"
    ZORDER = "zorder"
    HILBERT = "hilbert"

    @classmethod
    def _missing_(cls, value: object) -> Layout | None:
        folded = str(value).replace("-", "").replace("_", "").lower()
        return next((member for member in cls if member.value == folded), None)


class RewriteEngine(StrEnum):
    """What rewrites the files: icepack's native kernel wherever it is exact, or always Spark's procedure."""

    NATIVE = "native"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class PartitionSelection:
    key: PartitionKey
    values: tuple[PartitionValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """Rewrites small files, or files with deletes on them, into files near the target size."""

    kind: Literal[ActionKind.COMPACT] = ActionKind.COMPACT
    strategy: Strategy = Strategy.SMALL_FILES
    layout: Layout = Layout.BINPACK
    # Columns to sort, z-order or Hilbert-order by; without any, sort uses the table's own sort order.
    columns: tuple[str, ...] = ()
    target_file_bytes: int | None = None
    small_file_bytes: int | None = None
    min_input_files: int = 5
    delete_file_threshold: int | None = None
    partition_filter: str | None = None
    # Rewrites only these partitions; empty means all that match the filter.
    partitions: tuple[PartitionSelection, ...] = ()
    partial_progress: bool = False
    rewrite_all: bool = False
    max_cost_dollars: float | None = None
    # What rewrites the files: the native kernel where it is exact, or always Spark's procedure.
    engine: RewriteEngine = RewriteEngine.NATIVE
    # How much of the rewritten data is compared by value before it is committed.
    proof: ProofLevel = ProofLevel.SAMPLED
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeletes:
    """Merges position delete files and drops deletes that no longer refer to a live row."""

    kind: Literal[ActionKind.REWRITE_POSITION_DELETES] = ActionKind.REWRITE_POSITION_DELETES
    partition_filter: str | None = None
    remove_dangling: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests:
    """Regroups the entries of manifests by partition."""

    kind: Literal[ActionKind.REWRITE_MANIFESTS] = ActionKind.REWRITE_MANIFESTS
    spec_id: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots:
    """Removes snapshots past their retention, and the files that only they refer to."""

    kind: Literal[ActionKind.EXPIRE_SNAPSHOTS] = ActionKind.EXPIRE_SNAPSHOTS
    older_than: timedelta = timedelta(days=7)
    retain_last: int = 1
    snapshot_ids: tuple[int, ...] = ()
    clean_expired_metadata: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveOrphanFiles:
    """Deletes files in the table's location that no metadata refers to."""

    kind: Literal[ActionKind.REMOVE_ORPHAN_FILES] = ActionKind.REMOVE_ORPHAN_FILES
    older_than: timedelta = timedelta(days=7)
    max_files: int = 100_000
    # The largest share of the files in the location that may be deleted; more orphans suggest a mistake.
    max_share: float = 0.5
    location: str | None = None
    override_age_floor: bool = False
    dry_run: bool = False
    equal_schemes: Mapping[str, str] = field(default_factory=dict)
    equal_authorities: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStats:
    """Writes distinct-value counts for the query planner, and partition statistics on request."""

    kind: Literal[ActionKind.COMPUTE_STATS] = ActionKind.COMPUTE_STATS
    columns: tuple[str, ...] = ()
    snapshot_id: int | None = None
    partition_stats: bool = False
    options: Mapping[str, str] = field(default_factory=dict)


Action: TypeAlias = Annotated[
    Compact | RewritePositionDeletes | RewriteManifests | ExpireSnapshots | RemoveOrphanFiles | ComputeStats,
    Field(discriminator="kind"),
]

_ADAPTER: TypeAdapter[Any] = TypeAdapter(Action)

ACTION_TYPES: dict[ActionKind, type[Any]] = {
    ActionKind.COMPACT: Compact,
    ActionKind.REWRITE_POSITION_DELETES: RewritePositionDeletes,
    ActionKind.REWRITE_MANIFESTS: RewriteManifests,
    ActionKind.EXPIRE_SNAPSHOTS: ExpireSnapshots,
    ActionKind.REMOVE_ORPHAN_FILES: RemoveOrphanFiles,
    ActionKind.COMPUTE_STATS: ComputeStats,
}

# Files younger than this may belong to a commit in progress, so they are never treated as orphans by default.
ORPHAN_AGE_FLOOR = timedelta(hours=24)

_COMMITTING = frozenset({ActionKind.COMPACT, ActionKind.REWRITE_POSITION_DELETES, ActionKind.REWRITE_MANIFESTS})
_DELETING = frozenset({ActionKind.EXPIRE_SNAPSHOTS, ActionKind.REMOVE_ORPHAN_FILES})


def commits_snapshot(kind: ActionKind) -> bool:
    """Whether the action commits snapshots of its own, which then carry the run's stamp."""
    return kind in _COMMITTING


def deletes_files(kind: ActionKind) -> bool:
    return kind in _DELETING


def action_to_json(action: Action) -> dict[str, Any]:
    value: dict[str, Any] = _ADAPTER.dump_python(action, mode="json")
    return value


def action_from_json(value: Any) -> Action:
    action: Action = _ADAPTER.validate_python(value)
    return action
