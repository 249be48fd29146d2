"""Generates docs/reference/health-issues.md: every issue with its threshold, its penalty and computed examples."""

from __future__ import annotations

from generator import thresholds
from generator.markdown import code, fence, section, table
from generator.markdown import page as markdown_page
from generator.sample_tables import NOW, SAMPLE_TABLES
from generator.words import Undocumented, words
from icepack.domain.health import Issue, IssueCode, assess_health
from icepack.domain.status import TableStatus


def page() -> str:
    overview = table(
        ("code", "condition", "penalty", "fixed by"),
        [(_link(each), thresholds.FOUND_WHEN[each], _range(each), words("issues", each, "cure")) for each in IssueCode],
    )
    return markdown_page("Health issues", words("pages", "health"), overview, *(_issue(each) for each in IssueCode))


def summary() -> str:
    """The summary table in docs/concepts.md."""
    rows = [(code(each), thresholds.FOUND_WHEN[each], code(thresholds.PENALTY[each])) for each in IssueCode]
    return table(("issue", "condition", "penalty"), rows)


def _link(each: IssueCode) -> str:
    return f"[{code(each)}](#{each})"


def _range(each: IssueCode) -> str:
    return str(words("issues", each, "range"))


def _issue(each: IssueCode) -> str:
    found = [(label, issue_of(each, status)) for label, status in SAMPLE_TABLES[each]]
    rows = [(label, f"{issue.penalty:g}", issue.severity.value) for label, issue in found]
    example = found[-1][1]
    evidence = [(code(name), words("evidence", each, name)) for name in example.evidence]
    return section(
        each,
        words("issues", each, "why"),
        f"**Condition:** {thresholds.FOUND_WHEN[each]}.",
        f"**Penalty**, computed from the evidence below:\n\n{fence(thresholds.PENALTY[each], 'python')}",
        table(("example table", "penalty", "severity"), rows),
        f"Example: *{example.sentence}*",
        table(("evidence", "description"), evidence),
        f"**Fixed by** {words('issues', each, 'cure')}.",
    )


def issue_of(each: IssueCode, status: TableStatus) -> Issue:
    found = next((issue for issue in assess_health(status, NOW).issues if issue.code is each), None)
    if found is None:
        raise Undocumented(f"The sample table for {each} does not have this issue.")
    return found
