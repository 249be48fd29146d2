"""What earlier attempts of a job have committed, found by their stamps, so that a retry does not repeat it."""

from __future__ import annotations

from collections.abc import Sequence

from icepack.domain.actions import Action, Compact, RewritePositionDeletes
from icepack.domain.run import CommitFacts

PARTIAL_PROGRESS_OPTION = "partial-progress.enabled"


def commits_once(action: Action) -> bool:
    """Whether the action makes one commit that contains all its work, so that finding it means that nothing is left.

    Other actions run again from the current snapshot, where they find less to do, or nothing.
    """
    match action:
        case Compact():
            return not (action.partial_progress or _has_partial_progress_option(action))
        case RewritePositionDeletes():
            return not _has_partial_progress_option(action)
        case _:
            return False


def _has_partial_progress_option(action: Compact | RewritePositionDeletes) -> bool:
    return action.options.get(PARTIAL_PROGRESS_OPTION, "false").strip().lower() == "true"


def was_committed_earlier(action: Action, commits: Sequence[CommitFacts], attempt: int | None) -> bool:
    """Whether an earlier attempt has made the action's commit, no matter whether it died or is still running."""
    if attempt is None or not commits_once(action):
        return False
    return any(0 < commit.attempt < attempt and not commit.is_part for commit in commits)


def select_commits_of_attempt(commits: Sequence[CommitFacts], attempt: int | None) -> Sequence[CommitFacts]:
    """Returns the commits of this attempt; a run that was started by a command has only one attempt."""
    return commits if attempt is None else [commit for commit in commits if commit.attempt == attempt]
