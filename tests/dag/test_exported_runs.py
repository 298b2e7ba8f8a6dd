"""Exports of Airflow, Argo and LangGraph: properties that hold for every adapter."""

import json
import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dag_evidence import CHANCE
from exported_runs import JSON_VALUE, RANDOM_EXPORTS, SYSTEMS, load_example, places_in
from waybook.dag.diagram.svg import drawing_from_snapshot, export_drawing
from waybook.dag.progress.report import check
from waybook.dag.snapshots.snapshot import (
    SnapshotFormat,
    detect_format,
    map_from_snapshot,
    report_from_snapshot,
)
from waybook.dag.statuses import DrawingFormat
from waybook.errors import InvalidInput


@pytest.mark.parametrize("system", SYSTEMS)
@settings(max_examples=80)
@given(chance=CHANCE)
def test_report_of_a_random_export_satisfies_the_report_invariants(
    system: str, chance: Random
) -> None:
    export = RANDOM_EXPORTS[system](chance)
    assert detect_format(export) == system
    report = report_from_snapshot(export)
    assert check(report) == []
    (stage,) = report["stages"]
    (structure,) = map_from_snapshot(export)["stages"]
    assert [step["stepKey"] for step in stage["steps"] or ()] == structure["order"]
    assert structure["expected"]["total"] is None


@pytest.mark.parametrize("system", SYSTEMS)
@given(data=st.data())
def test_damaged_export_gives_a_valid_report_or_an_error(system: str, data: st.DataObject) -> None:
    export = load_example(system)
    container, key = data.draw(st.sampled_from(list(places_in(export))))
    container[key] = data.draw(JSON_VALUE)
    form = SnapshotFormat(system)
    try:
        reports = [report_from_snapshot(export, form)]
    except InvalidInput as error:
        reports = []
        message = str(error)
    else:
        message = ""
        assert map_from_snapshot(export, form=form)["stages"]
    assert bool(reports) or re.match(r"[a-zA-Z_.]+(\[.+\])?.*: ", message)
    assert [check(report) for report in reports] == [[]] * len(reports)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("form", SnapshotFormat)
def test_export_read_in_the_format_of_another_system_is_refused(
    system: str, form: SnapshotFormat
) -> None:
    export = load_example(system)
    if form == system:
        assert report_from_snapshot(export, form) == report_from_snapshot(export)
    else:
        with pytest.raises(InvalidInput, match="this is no"):
            report_from_snapshot(export, form)


@pytest.mark.parametrize("system", SYSTEMS)
def test_drawing_of_exported_run_shows_each_step_with_a_status(system: str) -> None:
    export = load_example(system)
    drawing = drawing_from_snapshot(export)
    (stage,) = map_from_snapshot(export)["stages"]
    outline = export_drawing(DrawingFormat.MARKDOWN, drawing).replace("\\", "")
    assert all(key in outline for key in stage["order"])
    assert "completed" in outline
    assert export_drawing(DrawingFormat.SVG, drawing).count("<rect") >= len(stage["order"])


def test_snapshot_with_waybook_and_airflow_keys_is_read_as_waybook() -> None:
    export = {**load_example("airflow"), "dag": {"stages": []}}
    assert detect_format(export) is SnapshotFormat.WAYBOOK
    assert detect_format(json.loads("[]")) is SnapshotFormat.WAYBOOK
