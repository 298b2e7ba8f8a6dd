"""Snapshots: the state of a run exported by another system.

The only error is input that is not a snapshot: missing or unexpected data becomes a warning in the
report, and the rest is reported. A map is stricter, because callers rely on it: an invalid
structure is refused.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from waybook.dag.definitions.definition import graphs_of, read_definition
from waybook.dag.diagnostics import (
    StageWarning,
    count_noun,
    messages_by_stage,
    quote_name,
    sorted_messages,
)
from waybook.dag.progress.documents import RENDERED, Resource, available_documents
from waybook.dag.progress.overlay import JobEvidence, evidence_of
from waybook.dag.progress.report import Report, StageEvidence, report
from waybook.dag.progress.structure import (
    Map,
    StageMap,
    Structure,
    map_json,
    stage_order,
    valid_structure,
)
from waybook.dag.snapshots.lenient import read_leniently
from waybook.dag.snapshots.rows import (
    Raw,
    StageRun,
    as_list,
    as_object,
    as_text,
    assign_jobs,
    read_rows,
    read_stage_runs,
)
from waybook.errors import InvalidInput

#: Names of the lists that a snapshot contains in addition to its DAG.
LISTS = ("stageRuns", "jobs", "resources")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    structure: Structure
    #: Progress evidence of each stage that has started, by stage slug.
    evidence: Mapping[str, StageEvidence]
    #: Warnings by stage slug; the key None contains the warnings that belong to no stage.
    warnings: Mapping[str | None, Sequence[str]]


def report_from_snapshot(data: object) -> Report:
    """Return the progress report of an exported run snapshot.

    Raises:
        InvalidInput: this is no snapshot.
        BadRecipe: its DAG has no stages.
    """
    snapshot = read_snapshot(data)
    return report(snapshot.structure, snapshot.evidence, snapshot.warnings)


def read_snapshot(data: object) -> Snapshot:
    """Return the structure, progress evidence and warnings of an exported run snapshot.

    Raises:
        InvalidInput: this is no snapshot.
        BadRecipe: its DAG has no stages.
    """
    raw = _with_dag(data)
    lenient = read_leniently(raw["dag"])
    structure = lenient.structure
    runs, strange_runs = read_stage_runs(raw.get("stageRuns"), structure)
    placed, strange_jobs = assign_jobs(read_rows(raw.get("jobs")), structure.slugs)
    resources, strange_resources = _resources(raw.get("resources"))
    readings = available_documents(placed.renders, resources)
    warned = [*_missing_lists(raw), *strange_runs, *strange_jobs, *strange_resources]
    warned += [
        StageWarning(slug, message)
        for slug, findings in readings.items()
        for message in findings.warnings
    ]
    warned += [
        StageWarning(slug, message)
        for slug, findings in lenient.warnings.items()
        for message in findings
    ]
    seen: dict[str, StageEvidence] = {}
    for slug in {*runs, *placed.work}:
        run, work = runs.get(slug, StageRun()), placed.work.get(slug, Counter())
        evidence, unknown = evidence_of(work, run.closed)
        documents = readings[slug].documents if slug in readings else ()
        seen[slug] = StageEvidence(models=run.models, steps=evidence, documents=documents)
        warned += [
            StageWarning(slug, message) for message in (*unknown, *_no_steps(slug, work, structure))
        ]
    return Snapshot(structure=structure, evidence=seen, warnings=messages_by_stage(warned))


def _with_dag(data: object) -> Raw:
    if not isinstance(data, dict):
        raise InvalidInput("a snapshot is a JSON object with a dag, stageRuns, jobs and resources")
    if not isinstance(data.get("dag"), dict):
        raise InvalidInput("this is no snapshot: it has no dag", missing="dag")
    return data


def _missing_lists(raw: Raw) -> Iterator[StageWarning]:
    for name in LISTS:
        if raw.get(name) is None:
            yield StageWarning(None, f"the snapshot has no {name}")
        elif not isinstance(raw[name], list):
            yield StageWarning(None, f"the snapshot's {name} are not a list")


def _resources(raws: object) -> tuple[list[Resource], list[StageWarning]]:
    resources = []
    nameless = 0
    for raw in map(as_object, as_list(raws)):
        if raw.get("resourceType") == RENDERED:
            name, job = as_text(raw.get("id")), as_text(raw.get("jobId"))
            key, model = as_text(raw.get("documentKey")), as_text(raw.get("modelId"))
            resources += [Resource(name, job, key, model)] if name else []
            nameless += name is None
    message = f"{count_noun(nameless, 'rendered document')} without an id"
    return resources, [StageWarning(None, message)] if nameless else []


def _no_steps(slug: str, work: Counter[JobEvidence], structure: Structure) -> Iterator[str]:
    """Yield a warning for each step that jobs refer to but the recipe does not contain."""
    if slug not in structure.graphs:
        return
    known = structure.graphs[slug].steps
    unknown: Counter[str] = Counter()
    for (step, _, _), many in work.items():
        if step is not None and step not in known:
            unknown[step] += many
    for step, many in unknown.items():
        yield f"{count_noun(many, 'job')} of a step that is not there: {quote_name(step)}"


# Computing the map of a snapshot


def map_from_snapshot(data: object, models: Sequence[str] = ()) -> Map:
    """Return the map of an exported run snapshot, or of a workflow definition alone.

    `models` are those of the first stage, if the data does not name them.

    Raises:
        InvalidInput: this is neither a snapshot nor a definition.
        BadRecipe: the structure cannot be walked.
    """
    alone = isinstance(data, dict) and "dag" not in data and "stages" in data
    raw = _with_dag({"dag": data} if alone else data)
    dag = read_definition(raw["dag"], strict=False)
    structure = valid_structure(dag, graphs_of(dag))
    runs, warned = read_stage_runs(raw.get("stageRuns"), structure)
    models_of = {slug: run.models for slug, run in runs.items() if run.models}
    models_of.setdefault(stage_order(dag)[0], tuple(models))
    answer = map_json(structure, models_of)
    strange = [message if slug is None else f"{slug}: {message}" for slug, message in warned]
    strange += _uncounted(answer["stages"], known=any(models_of.values()))
    return {**answer, "warnings": sorted_messages(strange)} if strange else answer


def _uncounted(stages: Sequence[StageMap], *, known: bool) -> Iterator[str]:
    """Yield warnings that say why expected counts are missing."""
    unknown = [stage["stageSlug"] for stage in stages if stage["expected"]["total"] is None]
    if not known:
        yield "expected units unknown: models are not set"
    elif unknown:
        stage = f"of {quote_name(unknown[0])}" + (" and the later stages" if unknown[1:] else "")
        yield f"expected units {stage} unknown"
