"""Prints recommended actions, and with --explain the reasons, parameters and estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from icepack.cli.console import add_row, console, create_table, print_json, print_text, short_names
from icepack.cli.context import ReadFailures
from icepack.cli.output.failures import failures_json, show_failures
from icepack.domain.plan.lambda_advice import LambdaAdvice
from icepack.domain.serialization import to_json
from icepack.domain.units import format_duration
from icepack.service.advice import Advice

MAX_PARTITIONS_LISTED = 5


def show_recommendations(advice: Sequence[Advice], failures: ReadFailures, output: str, *, explain: bool) -> None:
    if output == "json":
        print_json({"tables": [_advice_json(item) for item in advice], **failures_json(failures)})
        return
    print_recommendations(advice)
    if explain:
        for item in advice:
            _explain(item)
    show_failures(failures)


def _advice_json(item: Advice) -> dict[str, Any]:
    return {
        "table": str(item.status.table),
        "score": item.health.score,
        "policy": to_json(item.policy),
        "recommendation": to_json(item.recommendation),
    }


def print_recommendations(advice: Sequence[Advice], title: str | None = None) -> None:
    numbers = ("est. time", "est. cost", "conflict risk")
    table = create_table("table", "action", "reason", *numbers, title=title, numbers=numbers)
    names = short_names(item.status.table for item in advice)
    for item in advice:
        for recommended in item.recommendation.actions:
            add_row(
                table,
                names[item.status.table],
                recommended.kind.value,
                recommended.reason,
                format_duration(recommended.cost.duration_seconds),
                f"${recommended.cost.dollars:.4f}",
                f"{recommended.conflict_probability:.0%}",
            )
    if table.row_count:
        console().print(table)
    else:
        print_text("Nothing to do: no table needs maintenance.")


def _explain(item: Advice) -> None:
    print_text(f"\n{item.status.table}  (score {item.health.score})")
    for issue in item.health.issues:
        print_text(f"  issue    {issue.sentence}")
    for recommended in item.recommendation.actions:
        print_text(f"  action   {recommended.kind}: {recommended.reason}")
        print_text(f"           parameters: {_format_parameters(recommended.action)}")
        print_text(f"           effect (estimate): {_format_values(to_json(recommended.effect))}")
        print_text(f"           cost (estimate): {_format_values(to_json(recommended.cost))}")
        print_text(f"           risk of a commit conflict (estimate): {recommended.conflict_probability:.1%}")
        lambda_advice = recommended.lambda_advice(item.status.time_since_compaction)
        if lambda_advice is not None:
            print_text(f"           {describe_lambda_advice(lambda_advice)}")
    for skipped in item.recommendation.skipped:
        print_text(f"  skipped  {skipped.kind}: {skipped.reason}")


def describe_lambda_advice(advice: LambdaAdvice) -> str:
    """Says whether a compaction fits in an AWS Lambda function, and why."""
    verdict = f"fits, {advice.memory_mb:,} MB" if advice.fits else "does not fit"
    return f"AWS Lambda (estimate): {verdict}. {advice.reason}"


def _format_parameters(action: Any) -> str:
    values = {key: value for key, value in to_json(action).items() if key not in ("kind", "partitions") and value}
    partitions = getattr(action, "partitions", ())
    if partitions:
        listed = ", ".join(selection.key.path for selection in partitions[:MAX_PARTITIONS_LISTED])
        more = len(partitions) - MAX_PARTITIONS_LISTED
        values["partitions"] = listed + (f" and {more} more" if more > 0 else "")
    return _format_values(values)


def _format_values(values: dict[str, Any]) -> str:
    texts = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items() if value}
    return ", ".join(f"{key}={text}" for key, text in texts.items()) or "none"
