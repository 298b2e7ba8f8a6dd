"""Reference pages, which describe every tool, error, setting, command, event, table and metric."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields

import click

from project.repository import ROOT, SOURCE, headings, read, sections
from waybook import errors
from waybook.app.registry import TOOLS
from waybook.app.request.wait_queue import MAX_WAITING, MAX_WAITING_OF_ORG
from waybook.cli.app import app
from waybook.core.changes import Entity, Event
from waybook.core.decision_context import Channel
from waybook.settings import Settings
from waybook.store.driver.pool import MAX_QUEUED
from waybook.store.driver.queries import expand_parts
from waybook.store.maintenance.migrate import bundled_migrations
from waybook.transport.http.dashboard import live
from waybook.transport.http.metrics import FAMILIES
from waybook.transport.mcp import subscriptions

TICKED = re.compile(r"`([^`]+)`")


def test_tools_reference_has_section_with_arguments_for_every_tool() -> None:
    page = sections(read("reference", "tools.md"), 2)
    assert [name for name in page if name != "Structures"] == list(TOOLS)
    for name in TOOLS:
        assert f"<!-- generated: arguments of {name} -->" in page[name]


def test_errors_reference_has_a_heading_for_every_error_code() -> None:
    codes = {kind.code for kind in subclasses(errors.WaybookError)}
    assert set(headings(read("reference", "errors.md"), 2)) == codes


def subclasses(kind: type[errors.WaybookError]) -> Iterator[type[errors.WaybookError]]:
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield below
            yield from subclasses(below)


def test_settings_reference_has_a_heading_for_every_setting() -> None:
    page = sections(read("reference", "settings.md"), 2)
    assert list(page) == [setting.name for setting in fields(Settings)]
    for name, body in page.items():
        assert f"<!-- generated: setting {name} -->" in body


def test_command_line_reference_has_a_heading_for_every_command() -> None:
    page = sections(read("reference", "command-line.md"), 2)
    assert list(page) == list(commands(app))
    for name, body in page.items():
        assert f"<!-- generated: help of {name} -->" in body


def commands(group: click.Group, above: str = "") -> Iterator[str]:
    """Yield the commands by their full names, in the order of `--help`."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{above}{name}"
        if isinstance(command, click.Group):
            yield from sorted(commands(command, f"{above}{name} "), key=_place)


def _place(name: str) -> int:
    """Return the place of a command in its group; commands with verbs stay in order."""
    return ORDER.index(name) if name in ORDER else -1


ORDER = [
    *("template list", "template show", "template save", "template use"),
    *("audit list", "audit verify", "audit anchor", "audit as-of"),
    *("webhooks list", "webhooks test", "webhooks retry", "webhooks revoke-links"),
    *("org add", "org list", "org show", "org set", "org erase"),
    *("user add", "user list", "user scopes", "user disable", "user enable", "user erase"),
    *("token add", "token list", "token revoke"),
]


def test_audit_reference_has_a_heading_for_every_audit_event() -> None:
    events = sections(read("reference", "audit.md"), 2)["Events"]
    assert set(headings(events, 3)) == set(Event)


def test_audit_reference_lists_every_channel() -> None:
    page = read("reference", "audit.md")
    assert [channel for channel in Channel if f"`{channel}`" not in page] == []


def test_audit_reference_lists_audited_fields_of_every_entity() -> None:
    changes = sections(sections(read("reference", "audit.md"), 2)["Changes"], 3)
    assert set(changes) == set(Entity)
    assert {entity: listed(body) for entity, body in changes.items()} == audited_fields()


def listed(section: str) -> set[str]:
    """Return the names in backticks that begin the list items of a section."""
    items = re.findall(r"^- (.+?):", section, re.MULTILINE)
    return {name for item in items for name in TICKED.findall(item)}


def audited_fields() -> dict[str, set[str]]:
    """Return the audited fields for each kind of row, as found in the SQL queries."""
    plans, runs, orgs, skills = (
        expand_parts((SOURCE / "store" / f"{name}.sql").read_text("utf-8"))
        for name in ("plans/load", "runs/load", "accounts/accounts", "plans/writer")
    )
    built = re.compile(
        r"select (?:'(\w+)'(?: as \w+)?,(?:(?!select|json_build).)+)?"
        r"json_build_object\((.*?)\)(?: as \w+)?\s+from\s",
        re.DOTALL,
    )
    fields_by_entity: dict[str, set[str]] = {}
    for entity, body in (*built.findall(plans + runs + orgs), *built.findall(skills)[:1]):
        names = set(re.findall(r"'(\w+)',", body))
        fields_by_entity[entity or "skill_execution"] = fields_by_entity.get(entity, set()) | names
    return fields_by_entity


def test_schema_reference_has_a_heading_for_every_table() -> None:
    schema = "".join(migration.text for migration in bundled_migrations())
    tables = {"schema_migration", *re.findall(r"^create table (\w+) \($", schema, re.MULTILINE)}
    assert set(headings(read("reference", "schema.md"), 2)) == tables


def test_team_guide_lists_limits_per_org_and_per_process() -> None:
    limits = [
        (MAX_QUEUED, None),
        (live.MAX_STREAMS_PER_ORG, live.MAX_STREAMS),
        (subscriptions.MAX_STREAMS_PER_ORG, subscriptions.MAX_STREAMS),
        (MAX_WAITING_OF_ORG, MAX_WAITING),
    ]
    table = sections(read("how-to", "serve-a-team.md"), 2)["Rate limits"]
    rows = re.findall(r"^\|[^|]+\| ([\d,]+) \|(?: ([\d,]+))? \|", table, re.MULTILINE)
    assert rows == [(f"{org:,}", f"{every:,}" if every else "") for org, every in limits]


def test_retention_guide_lists_the_default_of_every_retention_setting() -> None:
    table = sections(read("how-to", "erase-and-retain.md"), 2)["Retention settings"]
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (\d+) \|$", table, re.MULTILINE))
    defaults = {field.name: str(field.default) for field in fields(Settings)}
    names = {name for name in defaults if name.startswith("keep_") and name.endswith("_days")}
    assert rows == {name: defaults[name] for name in names}


# Tests of metrics.


DASHBOARD = ROOT / "deploy" / "grafana" / "waybook.json"
SERIES_NAME = re.compile(r"\b((?:waybook|process)_[a-z_]+)\b")
#: Suffixes that Prometheus adds to the name of a histogram.
SERIES = ("_bucket", "_sum", "_count")


def shown_series() -> set[str]:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    return {name for expression in expressions for name in SERIES_NAME.findall(expression)}


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


def test_metrics_reference_lists_every_metric() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| (?:counter|gauge|histogram) ", read("reference/metrics.md"), re.MULTILINE
    )
    assert listed == list(FAMILIES)
