"""Reads snapshots: exported states of runs, in any of the known formats."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum

from waybook.dag.definitions.definition import read_graphs
from waybook.dag.diagnostics import quote_name, sorted_messages
from waybook.dag.progress.report import Report, report
from waybook.dag.progress.structure import (
    Map,
    StageMap,
    map_json,
    stage_order,
    valid_structure,
)
from waybook.dag.snapshots.airflow import is_airflow, read_airflow
from waybook.dag.snapshots.argo import is_argo, read_argo
from waybook.dag.snapshots.langgraph import is_langgraph, read_langgraph
from waybook.dag.snapshots.native import read_native, require_dag
from waybook.dag.snapshots.rows import Snapshot, read_stage_runs


class SnapshotFormat(StrEnum):
    WAYBOOK = "waybook"
    AIRFLOW = "airflow"
    ARGO = "argo"
    LANGGRAPH = "langgraph"


READERS: Mapping[SnapshotFormat, Callable[[object], Snapshot]] = {
    SnapshotFormat.WAYBOOK: read_native,
    SnapshotFormat.AIRFLOW: read_airflow,
    SnapshotFormat.ARGO: read_argo,
    SnapshotFormat.LANGGRAPH: read_langgraph,
}
_DETECTORS: Mapping[SnapshotFormat, Callable[[object], bool]] = {
    SnapshotFormat.AIRFLOW: is_airflow,
    SnapshotFormat.ARGO: is_argo,
    SnapshotFormat.LANGGRAPH: is_langgraph,
}


def detect_format(data: object) -> SnapshotFormat:
    if isinstance(data, dict) and "dag" in data:
        return SnapshotFormat.WAYBOOK
    matches = (form for form, matches in _DETECTORS.items() if matches(data))
    return next(matches, SnapshotFormat.WAYBOOK)


def read_snapshot(data: object, form: SnapshotFormat | None = None) -> Snapshot:
    """Return the structure, progress and warnings of a run snapshot.

    Raises:
        InvalidInput: the data is not a snapshot in this format.
        BadRecipe: the workflow has no stages.
    """
    return READERS[form or detect_format(data)](data)


def report_from_snapshot(data: object, form: SnapshotFormat | None = None) -> Report:
    """Return the progress report of a run snapshot.

    Raises:
        InvalidInput: the data is not a snapshot in this format.
        BadRecipe: the workflow has no stages.
    """
    snapshot = read_snapshot(data, form)
    return report(snapshot.structure, snapshot.evidence, snapshot.warnings)


def map_from_snapshot(
    data: object, models: Sequence[str] = (), form: SnapshotFormat | None = None
) -> Map:
    """Return the map of a run snapshot or a workflow definition.

    `models` are used for the first stage if the data names none.

    Raises:
        InvalidInput: the data is neither a snapshot nor a definition.
        BadRecipe: the structure is invalid.
    """
    known = form or detect_format(data)
    if known is SnapshotFormat.WAYBOOK:
        return _native_map(data, models)
    snapshot = READERS[known](data)
    warnings = [message for messages in snapshot.warnings.values() for message in messages]
    warnings.append("expected jobs unknown: the export does not contain them")
    answer = map_json(snapshot.structure, {})
    return {**answer, "warnings": sorted_messages(warnings)}


def is_definition(data: object) -> bool:
    return isinstance(data, dict) and "dag" not in data and "stages" in data


def _native_map(data: object, models: Sequence[str]) -> Map:
    raw = require_dag({"dag": data} if is_definition(data) else data)
    dag, graphs = read_graphs(raw["dag"], strict=False)
    structure = valid_structure(dag, graphs)
    runs, warned = read_stage_runs(raw.get("stageRuns"), structure)
    models_of = {slug: run.models for slug, run in runs.items() if run.models}
    models_of.setdefault(stage_order(dag)[0], tuple(models))
    answer = map_json(structure, models_of)
    strange = [message if slug is None else f"{slug}: {message}" for slug, message in warned]
    strange += _uncounted(answer["stages"], known=any(models_of.values()))
    return {**answer, "warnings": sorted_messages(strange)} if strange else answer


def _uncounted(stages: Sequence[StageMap], *, known: bool) -> Iterator[str]:
    # A stage with some counts lacks only those that depend on lists.
    unknown = [s["stageSlug"] for s in stages if {*s["expected"]["steps"].values()} <= {None}]
    if not known:
        yield "expected jobs unknown: models are not set"
    elif unknown:
        stage = f"of {quote_name(unknown[0])}" + (" and the later stages" if unknown[1:] else "")
        yield f"expected jobs {stage} unknown"
