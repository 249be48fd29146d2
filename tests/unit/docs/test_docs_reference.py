"""The generated reference is complete and up to date."""

from __future__ import annotations

from typing import Any

import click
import generate
import pytest
from generator import cli, configuration, record_types, words
from generator.exit_codes import kinds
from generator.health import issue_of
from generator.sample_tables import SAMPLE_TABLES
from generator.thresholds import PENALTY

from icepack.config.settings import CompactionConfig
from icepack.domain.actions import ActionKind
from icepack.domain.health import IssueCode
from icepack.domain.observability.metric_definitions import METRICS
from icepack.domain.policy import POLICY_KEYS

from .pages import text

COMMANDS = dict(cli.commands())


def test_generated_pages_are_up_to_date() -> None:
    assert generate.stale() == [], "run: python docs/generate.py"


def test_missing_text_is_an_error() -> None:
    with pytest.raises(words.Undocumented, match="settings / no such"):
        words.words("settings", "no such")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    page = text("docs/reference/cli.md")
    section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    spellings = [spelling for option in cli.options(COMMANDS[name]) for spelling in option.opts]
    assert section
    assert [spelling for spelling in spellings if f"`{spelling}`" not in section] == []


def test_readme_lists_every_command() -> None:
    names = [name for name, command in COMMANDS.items() if not _is_plain_group(command)]
    assert [name for name in names if f"`{name}" not in text("README.md")] == []


def _is_plain_group(command: click.Command) -> bool:
    return isinstance(command, click.Group) and not command.invoke_without_command


def test_examples_use_known_options() -> None:
    for name, command in COMMANDS.items():
        known = {spelling for option in cli.options(command) for spelling in option.opts}
        known |= {spelling for option in cli.options(COMMANDS["icepack"]) for spelling in option.opts}
        if name == "icepack":
            known |= {"--all"}
        used = [word for word in str(words.words("examples", name)).split() if word.startswith("--")]
        assert set(used) <= known, name


def test_every_setting_is_documented() -> None:
    page = text("docs/reference/configuration.md")
    found = [key for key, _, _ in configuration.settings()]
    assert [key for key in found if f"| `{key}` |" not in page] == []
    assert {key.partition(".")[0].removesuffix("[]") for key in found} == set(CompactionConfig.model_fields)


def test_no_text_for_removed_settings() -> None:
    assert set(words.words("settings")) == {key for key, _, _ in configuration.settings()}


def test_every_policy_key_is_documented() -> None:
    page = text("docs/reference/policy.md")
    assert [key for key in POLICY_KEYS if f"| `{key}` |" not in page] == []
    assert set(words.words("policy")) == set(POLICY_KEYS)


@pytest.mark.parametrize("page", ["docs/reference/health-issues.md", "docs/concepts.md"])
def test_every_issue_code_is_documented(page: str) -> None:
    assert [code for code in IssueCode if f"`{code}`" not in text(page)] == []


@pytest.mark.parametrize(
    ("code", "documented", "status"),
    [(code, documented, status) for code, many in SAMPLE_TABLES.items() for documented, status in many],
)
def test_documented_formula_gives_the_penalty(code: IssueCode, documented: str, status: Any) -> None:
    issue = issue_of(code, status)
    penalty = eval(PENALTY[code], {"min": min, "max": max}, dict(issue.evidence))
    assert round(penalty, 1) == pytest.approx(issue.penalty)


def test_every_issue_has_sample_tables_and_documented_evidence() -> None:
    assert set(SAMPLE_TABLES) == set(IssueCode)
    for code, many in SAMPLE_TABLES.items():
        shown = {key for _, status in many for key in issue_of(code, status).evidence}
        assert set(words.words("evidence", code)) == shown


@pytest.mark.parametrize("page", ["README.md", "docs/concepts.md", "docs/reference/cli.md", "docs/reference/json.md"])
def test_every_action_is_documented(page: str) -> None:
    assert [kind for kind in ActionKind if f"`{kind}`" not in text(page)] == []


def test_every_json_field_is_documented() -> None:
    page = text("docs/reference/json.md")
    for name, shape in record_types.shapes().items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert [field for field in record_types.hints(shape) if f"| `{field}` |" not in section] == [], name


def test_no_text_for_removed_fields() -> None:
    documented = {name: set(fields) for name, fields in words.words("fields").items() if name != "any"}
    known = {name: set(record_types.hints(shape)) for name, shape in record_types.shapes().items()}
    assert {
        f"{name}.{field}" for name, fields in documented.items() for field in fields - known.get(name, set())
    } == set()


def test_every_metric_is_documented() -> None:
    page = text("docs/reference/metrics.md")
    assert [metric.name for metric in METRICS if f"| `{metric.name}` |" not in page] == []


def test_every_exit_code_is_documented() -> None:
    page = text("docs/reference/exit-codes.md")
    codes = {kind.exit_code for kind in kinds()}
    assert codes <= set(words.words("exit_codes"))
    assert [code for code in codes if f"| `{code}` |" not in page] == []
