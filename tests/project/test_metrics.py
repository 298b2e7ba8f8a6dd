"""Metrics on the Grafana dashboard and in the reference exist, and every metric is shown."""

import json
import re

from project.repository import ROOT, read
from waybook.transport.http.metrics import FAMILIES

DASHBOARD = ROOT / "deploy" / "grafana" / "waybook.json"
NAME = re.compile(r"\b((?:waybook|process)_[a-z_]+)\b")
#: Endings of the series of a histogram.
SERIES = ("_bucket", "_sum", "_count")


def shown_series() -> set[str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    return {name for expression in expressions for name in NAME.findall(expression)}


def existing_series() -> dict[str, str]:
    return {
        f"{name}{ending}": name
        for name, family in FAMILIES.items()
        for ending in (SERIES if family.kind == "histogram" else ("",))
    }


def test_grafana_dashboard_shows_every_metric_and_only_existing_series() -> None:
    existing = existing_series()
    assert shown_series() - existing.keys() == set()
    assert {existing[series] for series in shown_series()} == set(FAMILIES)


def test_grafana_dashboard_panels_do_not_overlap_and_have_unique_ids() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)


def test_reference_page_lists_every_metric() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| (?:counter|gauge|histogram) ", read("reference/metrics.md"), re.MULTILINE
    )
    assert listed == list(FAMILIES)
