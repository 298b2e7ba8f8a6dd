"""Reads snapshots in Waybook's own format, which other systems can write too.

Missing or unexpected data causes a warning.
"""

from collections import Counter
from collections.abc import Iterator

from waybook.dag.diagnostics import (
    StageWarning,
    count_noun,
    messages_by_stage,
    quote_name,
)
from waybook.dag.progress.report import RENDERED, Resource, StageEvidence, available_documents
from waybook.dag.progress.structure import JobEvidence, Structure, evidence_of
from waybook.dag.snapshots.jobs import assign_jobs
from waybook.dag.snapshots.lenient import read_leniently
from waybook.dag.snapshots.rows import (
    Raw,
    Snapshot,
    StageRun,
    as_list,
    as_object,
    as_text,
    read_stage_runs,
)
from waybook.errors import InvalidInput

LISTS = ("stageRuns", "jobs", "resources")


def read_native(data: object) -> Snapshot:
    """Return the structure, progress and warnings of a run snapshot.

    Raises:
        InvalidInput: the data is not a snapshot.
        BadRecipe: the workflow has no stages.
    """
    raw = require_dag(data)
    lenient = read_leniently(raw["dag"])
    structure = lenient.structure
    runs, strange_runs = read_stage_runs(raw.get("stageRuns"), structure)
    placed, strange_jobs = assign_jobs(raw.get("jobs"), structure.slugs)
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


def require_dag(data: object) -> Raw:
    if not isinstance(data, dict):
        raise InvalidInput("a snapshot must be an object with dag, stageRuns, jobs and resources")
    if not isinstance(data.get("dag"), dict):
        raise InvalidInput("this is not a snapshot: it has no dag", missing="dag")
    return data


def _missing_lists(raw: Raw) -> Iterator[StageWarning]:
    for name in LISTS:
        if raw.get(name) is None:
            yield StageWarning(None, f"the snapshot has no {name}")
        elif not isinstance(raw[name], list):
            yield StageWarning(None, f"{name} of the snapshot is not a list")


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
    if slug not in structure.graphs:
        return
    known = structure.graphs[slug].steps
    unknown: Counter[str] = Counter()
    for (step, _, _), many in work.items():
        if step is not None and step not in known:
            unknown[step] += many
    for step, many in unknown.items():
        yield f"{count_noun(many, 'job')} of an unknown step: {quote_name(step)}"
