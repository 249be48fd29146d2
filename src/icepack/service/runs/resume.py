"""What earlier attempts of a job have committed, as the stamps tell: a retry must not do that again."""

from __future__ import annotations

from collections.abc import Sequence

from icepack.domain.actions import Action, Compact, RewritePositionDeletes
from icepack.domain.run import CommitFacts

PARTIAL_OPTION = "partial-progress.enabled"


def commits_once(action: Action) -> bool:
    """Whether one commit holds all that the action does, so that it tells that nothing is left to do.

    The others are simply run again from the current snapshot, where they find less to do, or nothing.
    """
    match action:
        case Compact():
            return not (action.partial_progress or _asks_for_parts(action))
        case RewritePositionDeletes():
            return not _asks_for_parts(action)
        case _:
            return False


def _asks_for_parts(action: Compact | RewritePositionDeletes) -> bool:
    return action.options.get(PARTIAL_OPTION, "false").strip().lower() == "true"


def done_earlier(action: Action, commits: Sequence[CommitFacts], attempt: int | None) -> bool:
    """Whether an earlier attempt got as far as its commit, be it that it died or that it is still about."""
    if attempt is None or not commits_once(action):
        return False
    return any(0 < commit.attempt < attempt and not commit.is_part for commit in commits)


def of_attempt(commits: Sequence[CommitFacts], attempt: int | None) -> Sequence[CommitFacts]:
    """This attempt's own; a run by hand has no other."""
    return commits if attempt is None else [commit for commit in commits if commit.attempt == attempt]
