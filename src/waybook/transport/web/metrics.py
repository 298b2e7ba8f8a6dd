"""Figures for those who watch over the server, in the text format of Prometheus."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One figure; those of the same name stand together and differ by their labels."""

    name: str
    help: str
    kind: Literal["counter", "gauge"]
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def render_metrics(metrics: Iterable[Metric]) -> str:
    r"""The figures as text.

    >>> calls = Metric(name="calls_total", help="Calls.", kind="counter", value=3)
    >>> render_metrics([calls])
    '# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total 3\n'
    """
    lines = []
    for name, group in groupby(metrics, key=attrgetter("name")):
        figures = list(group)
        lines += [
            f"# HELP {name} {escape_label(figures[0].help)}",
            f"# TYPE {name} {figures[0].kind}",
        ]
        lines += [f"{name}{format_labels(figure.labels)} {figure.value:g}" for figure in figures]
    return "".join(f"{line}\n" for line in lines)


def format_labels(pairs: Mapping[str, str]) -> str:
    """Labels in braces, or nothing if there are none."""
    quoted = ",".join(
        '{}="{}"'.format(key, escape_label(value).replace('"', r"\""))
        for key, value in pairs.items()
    )
    return f"{{{quoted}}}" if quoted else ""


def escape_label(text: str) -> str:
    """Text on one line."""
    return text.replace("\\", r"\\").replace("\n", r"\n")
