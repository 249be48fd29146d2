"""docs/reference/health-issues.md: every issue with its threshold, its penalty and examples that were computed."""

from __future__ import annotations

from generator import thresholds
from generator.markdown import code, fence, section, table
from generator.markdown import page as markdown_page
from generator.specimens import NOW, SPECIMENS
from generator.words import Undocumented, words
from icepack.domain.health import Issue, IssueCode, assess
from icepack.domain.status import TableStatus


def page() -> str:
    overview = table(
        ("code", "found when", "penalty", "cured by"),
        [(_link(each), thresholds.FOUND_WHEN[each], _range(each), words("issues", each, "cure")) for each in IssueCode],
    )
    return markdown_page("Health issues", words("pages", "health"), overview, *(_issue(each) for each in IssueCode))


def summary() -> str:
    """The table for the page about concepts."""
    rows = [(code(each), thresholds.FOUND_WHEN[each], code(thresholds.PENALTY[each])) for each in IssueCode]
    return table(("issue", "found when", "penalty"), rows)


def _link(each: IssueCode) -> str:
    return f"[{code(each)}](#{each})"


def _range(each: IssueCode) -> str:
    return str(words("issues", each, "range"))


def _issue(each: IssueCode) -> str:
    found = [(said, issue_of(each, status)) for said, status in SPECIMENS[each]]
    rows = [(said, f"{issue.penalty:g}", issue.severity.value) for said, issue in found]
    example = found[-1][1]
    evidence = [(code(name), words("evidence", each, name)) for name in example.evidence]
    return section(
        each,
        words("issues", each, "why"),
        f"**Found when** {thresholds.FOUND_WHEN[each]}.",
        f"**Penalty**, from the evidence below:\n\n{fence(thresholds.PENALTY[each], 'python')}",
        table(("a table with …", "penalty", "severity"), rows),
        f"It says: *{example.sentence}*",
        table(("evidence", "what it is"), evidence),
        f"**Cured by** {words('issues', each, 'cure')}.",
    )


def issue_of(each: IssueCode, status: TableStatus) -> Issue:
    found = next((issue for issue in assess(status, NOW).issues if issue.code is each), None)
    if found is None:
        raise Undocumented(f"The specimen for {each} does not have it.")
    return found
