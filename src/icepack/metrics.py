"""Metrics: the figures in the text form that Prometheus scrapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate

from icepack.domain.observability.metric_definitions import METRICS, Figures, FiguresPort, Metric, MetricKind, Series

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(port: FiguresPort) -> tuple[bytes, str]:
    """The body and its content type."""
    figures = port.read()
    lines = [line for metric in METRICS for line in _lines(metric, figures)]
    return ("\n".join(lines) + "\n").encode(), CONTENT_TYPE


def _lines(metric: Metric, figures: Figures) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.kind.value}"
    if metric.kind is MetricKind.HISTOGRAM:
        yield from _histogram_lines(metric, figures)
    else:
        yield from (_line(metric.name, labels, value) for labels, value in shown(metric, figures))


def shown(metric: Metric, figures: Figures) -> Iterator[tuple[dict[str, str], float]]:
    """Each of its lines: labels and value."""
    for series in metric.series():
        if metric.always or series in figures:
            yield dict(zip(metric.labels, series.values, strict=True)), figures.get(series, 0.0)


def buckets(metric: Metric, figures: Figures) -> list[int]:
    """How many values fell into each bucket of a histogram."""
    numbers = range(len(metric.bounds) + 1)
    return [int(figures.get(Series(f"{metric.name}_bucket", (str(number),)), 0)) for number in numbers]


def total(metric: Metric, figures: Figures) -> float:
    """The sum of all values of a histogram."""
    return figures.get(Series(f"{metric.name}_sum"), 0.0)


def _histogram_lines(metric: Metric, figures: Figures) -> Iterator[str]:
    counts = list(accumulate(buckets(metric, figures)))
    for bound, count in zip([*map(_number, metric.bounds), "+Inf"], counts, strict=True):
        yield _line(f"{metric.name}_bucket", {"le": bound}, count)
    yield _line(f"{metric.name}_sum", {}, total(metric, figures))
    yield _line(f"{metric.name}_count", {}, counts[-1])


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    said = ",".join(f'{label}="{text}"' for label, text in labels.items())
    return f"{name}{{{said}}} {_number(value)}" if said else f"{name} {_number(value)}"


def _number(value: float) -> str:
    """Whole numbers without a point, as people write them."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
