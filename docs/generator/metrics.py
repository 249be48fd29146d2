"""Generates docs/reference/metrics.md: every metric, from its definition."""

from __future__ import annotations

from generator.markdown import code, codes, section, table
from generator.markdown import page as markdown_page
from generator.words import words
from icepack.domain.observability.metric_definitions import METRICS, Metric, MetricKind


def page() -> str:
    kinds = {
        kind: [_row(metric) for metric in METRICS if metric.kind is kind]
        for kind in (MetricKind.COUNTER, MetricKind.GAUGE)
    }
    histograms = [
        (code(metric.name), metric.help, codes(_number(bound) for bound in metric.bounds))
        for metric in METRICS
        if metric.kind is MetricKind.HISTOGRAM
    ]
    return markdown_page(
        "Metrics",
        words("pages", "metrics"),
        section(
            "Counters",
            words("pages", "counters"),
            table(("metric", "labels", "description"), kinds[MetricKind.COUNTER]),
        ),
        section("Gauges", table(("metric", "labels", "description"), kinds[MetricKind.GAUGE])),
        section("Histograms", words("pages", "histograms"), table(("metric", "description", "buckets"), histograms)),
    )


def _row(metric: Metric) -> tuple[str, str, str]:
    labels = "; ".join(f"{code(name)}: {codes(values)}" for name, values in metric.labels.items())
    missing = "" if metric.is_always_shown else " Omitted until it has a value."
    return code(metric.name), labels, f"{metric.help}{missing}"


def _number(bound: float) -> str:
    return f"{bound:g}" if bound < 1_000_000 else str(int(bound))
