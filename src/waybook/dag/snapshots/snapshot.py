"""Reads snapshots: exported states of runs, also of other systems.

Missing or unexpected data causes a warning. A workflow definition with errors is read too.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from waybook.dag.definitions.definition import read_definition, read_graphs
from waybook.dag.diagnostics import (
    StageWarning,
    count_noun,
    quote_name,
    sorted_messages,
)
from waybook.dag.graph import Graph, graph_or_errors
from waybook.dag.model import Dag, JobType, Recipe, RecipeStep, Stage, Strategy, Transition
from waybook.dag.progress.report import (
    RENDERED,
    Report,
    Resource,
    StageEvidence,
    available_documents,
    report,
)
from waybook.dag.progress.structure import (
    JobEvidence,
    Map,
    StageMap,
    Structure,
    evidence_of,
    map_json,
    stage_order,
    valid_structure,
)
from waybook.dag.snapshots.rows import (
    Raw,
    Snapshot,
    StageRun,
    as_list,
    as_object,
    as_text,
    assign_jobs,
    read_stage_runs,
)
from waybook.errors import BadRecipe, InvalidInput

_PLACEHOLDER_RECIPE = {
    "steps": [{"stepKey": "x", "jobType": "PLAN", "granularityStrategy": "all_to_one"}]
}


def read_leniently(data: object) -> Snapshot:
    """Return the structure that parsed JSON defines, with warnings about invalid parts.

    Raises:
        BadRecipe: there is no list of stages.
    """
    try:
        dag, graphs = read_graphs(data, strict=False)
    except BadRecipe as refused:
        if not as_list(as_object(data).get("stages")):
            raise refused from None
        structure, warnings = _stage_by_stage(as_object(data))
        if not any(warnings.values()):
            # If no single stage has an error, the errors concern the whole definition.
            warnings = {None: _format_errors(refused)}
        return Snapshot(structure=structure, evidence={}, warnings=warnings)
    return Snapshot(structure=valid_structure(dag, graphs), evidence={}, warnings={})


def _stage_by_stage(data: Raw) -> tuple[Structure, Mapping[str | None, Sequence[str]]]:
    raws, names = as_list(data["stages"]), dict[str, None]()
    for place, raw in enumerate(raws):
        slug = as_object(raw).get("slug")
        own = isinstance(slug, str) and slug and slug not in names
        names[str(slug) if own else f"stages[{place}]"] = None
    slugs = list(names)
    ways, strange = _ways(data, slugs)
    warnings: dict[str | None, Sequence[str]] = {None: strange}
    stages: list[Stage] = []
    graphs: dict[str, Graph] = {}
    sound: set[str] = set()
    for slug, raw in zip(slugs, raws, strict=True):
        stage, warnings[slug] = _stage(slug, as_object(raw), slugs, look=ways is not None)
        graph = graph_or_errors(stage.recipe)
        if isinstance(graph, Graph):
            graphs[slug] = graph
            sound |= {slug} if ways is not None and not warnings[slug] else set()
        stages.append(stage)
    dag = Dag(slug=slugs[0], name="", stages=tuple(stages), transitions=ways or ())
    return Structure(dag=dag, graphs=graphs, valid=frozenset(sound)), warnings


def _ways(data: Raw, slugs: Sequence[str]) -> tuple[tuple[Transition, ...] | None, list[str]]:
    stages = [{"slug": slug, "recipe": _PLACEHOLDER_RECIPE} for slug in slugs]
    result = _read({**data, "stages": stages})
    if isinstance(result, Dag):
        return result.transitions, []
    # Some field is invalid, perhaps only the name. Read the transitions without the other fields.
    clear = _read({"slug": "x", "stages": stages, "transitions": data.get("transitions")})
    return clear.transitions if isinstance(clear, Dag) else None, _format_errors(result)


def _stage(slug: str, raw: Raw, slugs: Sequence[str], *, look: bool) -> tuple[Stage, Sequence[str]]:
    """Return a stage and its errors. A stage with errors keeps only its steps and edges."""
    bare = Stage(slug, slug, _bare_recipe(as_object(raw.get("recipe"))))
    if raw.get("slug") != slug:
        return bare, ["slug: missing or not unique; the position is used"]
    if not look:
        return bare, []
    mentioned = {
        as_object(wanted).get("stage")
        for step in as_list(as_object(raw.get("recipe")).get("steps"))
        for wanted in as_list(as_object(step).get("inputsRequired"))
        if isinstance(as_object(wanted).get("stage"), str)
    }
    others = [other for other in slugs if other in mentioned - {slug}]
    before = [{"slug": other, "recipe": _PLACEHOLDER_RECIPE} for other in sorted(others)]
    result = _read({"slug": "x", "stages": [*before, raw]})
    if isinstance(result, Dag):
        return result.stages[-1], []
    return bare, _format_errors(result, f"stages[{len(before)}].")


def _read(data: object) -> Dag | BadRecipe:
    try:
        return read_definition(data, strict=False)
    except BadRecipe as refused:
        return refused


def _format_errors(refused: BadRecipe, inside: str = "") -> list[str]:
    faults = [as_object(fault) for fault in as_list(refused.details.get("faults"))]
    return [f"{str(error['at']).removeprefix(inside)}: {error['message']}" for error in faults]


def _bare_recipe(raw: Raw) -> Recipe:
    """Return the steps and edges of a stage, or nothing if they cannot be parsed."""
    steps: list[RecipeStep] = []
    for place, step in enumerate(map(as_object, as_list(raw.get("steps"))), start=1):
        key, number = step.get("stepKey"), step.get("stepNumber")
        if not isinstance(key, str):
            return Recipe(())
        bare = RecipeStep(
            key=key,
            number=number if isinstance(number, int) else place,
            name=key,
            job_type=JobType.EXECUTE,
            strategy=Strategy.ALL_TO_ONE,
            output_type=key,
            skip=step.get("skip") is True,
        )
        steps.append(bare)
    edges: list[tuple[str, str]] = []
    listed = raw.get("edges")
    for edge in listed if isinstance(listed, list) else [] if listed is None else [listed]:
        match edge:
            case [str() as source, str() as target]:
                edges.append((source, target))
            case _:
                return Recipe(())
    return Recipe(tuple(steps), tuple(edges))


LISTS = ("stageRuns", "jobs", "resources")


def read_snapshot(data: object) -> Snapshot:
    """Return the structure, progress and warnings of a run snapshot.

    Raises:
        InvalidInput: the data is not a snapshot.
        BadRecipe: the workflow has no stages.
    """
    raw = require_dag(data)
    lenient = read_leniently(raw["dag"])
    structure = lenient.structure
    runs, strange_runs = read_stage_runs(raw.get("stageRuns"), structure)
    work_by_stage, renders, strange_jobs = assign_jobs(raw.get("jobs"), structure.slugs)
    resources, strange_resources = _resources(raw.get("resources"))
    readings = available_documents(renders, resources)
    warned = [*_missing_lists(raw), *strange_runs, *strange_jobs, *strange_resources]
    found = [(slug, messages) for slug, (_, messages) in readings.items()]
    for slug, messages in [*found, *lenient.warnings.items()]:
        warned += [StageWarning(slug, message) for message in messages]
    seen: dict[str, StageEvidence] = {}
    for slug in {*runs, *work_by_stage}:
        run, work = runs.get(slug, StageRun()), work_by_stage.get(slug, Counter())
        evidence, unknown = evidence_of(work, run.closed)
        documents, _ = readings.get(slug, ((), ()))
        seen[slug] = StageEvidence(models=run.models, steps=evidence, documents=documents)
        warned += [
            StageWarning(slug, message) for message in (*unknown, *_no_steps(slug, work, structure))
        ]
    warnings: dict[str | None, list[str]] = {}
    for warning in warned:
        warnings.setdefault(warning.stage, []).append(warning.message)
    return Snapshot(structure=structure, evidence=seen, warnings=warnings)


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
    graph = structure.graphs.get(slug)
    unknown: Counter[str] = Counter()
    for (step, _, _), many in work.items():
        if graph is not None and step is not None and step not in graph.steps:
            unknown[step] += many
    for step, many in unknown.items():
        yield f"{count_noun(many, 'job')} of an unknown step: {quote_name(step)}"


def report_from_snapshot(data: object) -> Report:
    """Return the progress report of a run snapshot.

    Raises:
        InvalidInput: the data is not a snapshot.
        BadRecipe: the workflow has no stages.
    """
    snapshot = read_snapshot(data)
    return report(snapshot.structure, snapshot.evidence, snapshot.warnings)


def map_from_snapshot(data: object, models: Sequence[str] = ()) -> Map:
    """Return the map of a run snapshot or a workflow definition.

    `models` are used for the first stage if the data has no models for it.

    Raises:
        InvalidInput: the data is neither a snapshot nor a definition.
        BadRecipe: the structure is invalid.
    """
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
    # Name only the stages that have no counts at all. Others lack only counts that depend on lists.
    unknown = [s["stageSlug"] for s in stages if {*s["expected"]["steps"].values()} <= {None}]
    if not known:
        yield "expected jobs unknown: models are not set"
    elif unknown:
        stage = f"of {quote_name(unknown[0])}" + (" and the later stages" if unknown[1:] else "")
        yield f"expected jobs {stage} unknown"


def is_definition(data: object) -> bool:
    return isinstance(data, dict) and "dag" not in data and "stages" in data
