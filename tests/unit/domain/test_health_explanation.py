from __future__ import annotations

from icepack.domain.health import IssueCode
from icepack.domain.health_explanation import ISSUE_DESCRIPTIONS


def test_every_issue_has_a_description() -> None:
    assert set(ISSUE_DESCRIPTIONS) == set(IssueCode)
