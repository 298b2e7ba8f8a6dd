"""Starts stages, opens and closes their steps, and completes stages.

When the last job of a step ends, the same transaction closes the step and creates the jobs of the
steps that are now ready. A step can be split into one job per item of a list. The list is in the
input of the run, or another step produces it.
"""

from collections.abc import Collection, Mapping, Sequence

from waybook.core.changes import Event
from waybook.dag.expansion.inputs import StageCounts, expected_counts
from waybook.dag.expansion.units import (
    ItemOrigins,
    Origins,
    ProducedDocument,
    Unit,
    distinct,
    entry_origins,
    input_field,
    item_origins,
    merge_origins,
    read_items,
    units_of,
)
from waybook.dag.graph import StepState, walk
from waybook.dag.model import JobType
from waybook.errors import InvalidInput, NextCall, NotFound, TooLarge
from waybook.json_values import Json
from waybook.run.model import (
    MAX_JOBS,
    MAX_MODELS,
    MAX_STEPS,
    CompiledDag,
    Job,
    NewDocument,
    Run,
    RunDraft,
    RunList,
    StageRun,
    StepRun,
    step_id,
)


def input_lists(compiled_dag: CompiledDag, run_input: Json) -> tuple[RunList, ...]:
    """Return the lists in the input of the run.

    Raises:
        InvalidInput: a list is missing or has an empty item.
        TooLarge: a list has too many items.
    """
    lists = {
        item_list.name: item_list
        for item_list in compiled_dag.item_lists.values()
        if not item_list.stage
    }
    return tuple(
        RunList(name, len(read_items(input_field(run_input, item_list.document_key), item_list)))
        for name, item_list in lists.items()
    )


def _items_of(draft: RunDraft) -> ItemOrigins:
    return item_origins(draft.compiled_dag.item_lists, draft.run.lengths)


def store_list(draft: RunDraft, document: NewDocument) -> None:
    """Store the length of a list that a step produced.

    If another step already uses an earlier version of the list, that version stays in use.

    Raises:
        InvalidInput: the document is not a list, or has an empty item.
        TooLarge: the list has too many items.
    """
    item_list = draft.compiled_dag.produced_lists[document.stage, document.document_key]
    name, length = item_list.name, len(read_items(document.content, item_list))
    lists = {known.name: known for known in draft.run.lists}
    if name in _used_lists(draft.compiled_dag, draft.steps):
        lists[name] = lists[name]._replace(newer=(length, document.id))
    else:
        lists[name] = RunList(name, length, document.id)
    draft.set_run(lists=tuple(lists.values()))


def _used_lists(compiled_dag: CompiledDag, steps: Collection[str]) -> set[str]:
    lists = compiled_dag.item_lists.items()
    return {item_list.name for (stage, key), item_list in lists if step_id(stage, key) in steps}


def copy_lists(draft: RunDraft, original: Run, new_ids: Mapping[str, str]) -> None:
    """Copy the lists in the run's input, and the lists that the copied stages produced.

    If a copied step uses a list, the version that the step uses is copied. Otherwise, the latest
    version of the list is copied.
    """
    produced = {
        item_list.name: item_list for item_list in draft.compiled_dag.produced_lists.values()
    }
    used = _used_lists(draft.compiled_dag, draft.steps)
    lists = []
    for known in original.lists:
        if known.name in produced and produced[known.name].stage not in draft.stages:
            continue
        name, length, document, newer = known
        if newer is not None and name not in used:
            length, document = newer
        lists.append(RunList(name, length, document and new_ids.get(document, document)))
    draft.set_run(lists=tuple(lists))


MAX_NAMES_LISTED = 50
_SEE_STAGES = NextCall("list_dags", {}, "See the workflows and their stages.")


def start_stage(draft: RunDraft, slug: str, models: Sequence[str]) -> None:
    """Start a stage with a fixed list of models, and open its first steps.

    Raises:
        InvalidInput: the list of models is empty.
        TooLarge: there are too many models, or more jobs than one stage may have.
    """
    frozen = validate_models(models)
    _require_few_steps(draft.compiled_dag, slug)
    before, now = draft.compiled_dag.dag.before(slug), draft.moment.now
    leaves = (_counts(draft, earlier).leaves for earlier in before)
    prior = merge_origins(leaves) if before else entry_origins(frozen)
    draft.add_stage(StageRun(slug=slug, models=frozen, prior=prior, started_at=now))
    require_few_jobs(draft, slug)
    advance(draft, slug)
    draft.record(Event.PLAN_MODIFIED, action="stage_started", stageSlug=slug, models=[*frozen])


def validate_models(models: Sequence[str]) -> tuple[str, ...]:
    """Check the number of models, and return them without duplicates."""
    frozen = distinct(models)
    if not frozen:
        raise InvalidInput("a stage needs at least one model; list it in `models`")
    if len(frozen) > MAX_MODELS:
        raise TooLarge(
            f"{len(frozen)} models are listed; a stage accepts at most {MAX_MODELS}",
            limit=MAX_MODELS,
        )
    return frozen


def require_stage(compiled_dag: CompiledDag, slug: str) -> None:
    """Check that the workflow has this stage.

    Raises:
        NotFound: the workflow has no stage with this slug.
    """
    if slug not in compiled_dag.stages:
        raise NotFound(
            f"this workflow has no stage {slug!r}; it has {', '.join(compiled_dag.order)}",
            next_call=_SEE_STAGES,
            stageSlug=slug,
            stages=[*compiled_dag.order],
        )


def require_step(compiled_dag: CompiledDag, slug: str, key: str) -> None:
    """Check that the stage has this step.

    Raises:
        NotFound: the stage has no step with this key.
    """
    order = compiled_dag.graphs[slug].order
    if key not in order:
        raise NotFound(
            f"the stage {slug!r} has no step {key!r}",
            next_call=_SEE_STAGES,
            stepKey=key,
            steps=[*order[:MAX_NAMES_LISTED]],
        )


def _counts(draft: RunDraft, slug: str) -> StageCounts:
    compiled_dag, stage = draft.compiled_dag, draft.stages[slug]
    graph = compiled_dag.graphs[slug]
    return expected_counts(
        compiled_dag.stages[slug], graph, stage.models, stage.prior, _items_of(draft)
    )


def require_runnable(compiled_dag: CompiledDag) -> None:
    """Check that no stage of the workflow has too many steps, or too many jobs with one model."""
    leaves: dict[str, Origins] = {}
    for slug in compiled_dag.order:
        _require_few_steps(compiled_dag, slug)
        before = compiled_dag.dag.before(slug)
        models = ("model",)
        prior = merge_origins(leaves[b] for b in before) if before else entry_origins(models)
        stage, graph = compiled_dag.stages[slug], compiled_dag.graphs[slug]
        counts = expected_counts(stage, graph, models, prior)
        if counts.total > MAX_JOBS:
            raise TooLarge(
                f"the stage {slug!r} would have {counts.total:,} jobs with a single model; a stage "
                f"may have at most {MAX_JOBS:,}. Split it into several stages",
                limit=MAX_JOBS,
                stageSlug=slug,
            )
        leaves[slug] = counts.leaves


def _require_few_steps(compiled_dag: CompiledDag, slug: str) -> None:
    steps = len(compiled_dag.graphs[slug].order)
    if steps > MAX_STEPS:
        raise TooLarge(
            f"the stage {slug!r} has {steps:,} steps; a stage may have at most {MAX_STEPS}. Split "
            "it into several stages",
            limit=MAX_STEPS,
            stageSlug=slug,
        )


def require_few_jobs(draft: RunDraft, slug: str) -> None:
    """Check that a stage would have at most `MAX_JOBS` jobs.

    Jobs for items of a list of unknown length are not counted.
    """
    total = _counts(draft, slug).total
    if total > MAX_JOBS:
        models = len(draft.stages[slug].models)
        raise TooLarge(
            f"the stage {slug!r} would have {total:,} jobs with these {models} models; at most "
            f"{MAX_JOBS:,} are made. Choose fewer models"
            + (" or a shorter list" if draft.compiled_dag.item_lists else ""),
            limit=MAX_JOBS,
        )


def advance(draft: RunDraft, slug: str) -> None:
    """Close finished steps, open ready steps, and complete the stage if all steps are closed."""
    compiled_dag, stage, now = draft.compiled_dag, draft.stages[slug], draft.moment.now
    units_by_key: dict[str, tuple[Unit, ...]] = {}
    items, graph = _items_of(draft), compiled_dag.graphs[slug]

    def count_of(key: str) -> int:
        units_by_key[key] = units_of(
            key, compiled_dag.stages[slug], graph, stage.models, stage.prior, items
        )
        return len(units_by_key[key])

    states = {
        step.key: StepState(
            opened=True, closed=step.closed_at is not None, total=step.total, done=step.done
        )
        for step in draft.steps_in(slug)
    }
    walked = walk(graph, states, count_of)
    for key in walked.opened:
        units = units_by_key.get(key, ())
        draft.add_step(StepRun(stage=slug, key=key, total=len(units), opened_at=now))
        for unit in units:
            job = Job(
                id=draft.moment.new_id(),
                stage=slug,
                step_key=key,
                job_type=graph.steps[key].job_type,
                model=unit.model,
                rank=compiled_dag.dispatch_ranks[slug, key],
                unit=unit,
                ready_at=now,
            )
            draft.add_job(job)
    for key in walked.closed:
        draft.set_step(draft.steps[step_id(slug, key)], closed_at=now)
    closed = [step for step in draft.steps_in(slug) if step.closed_at is not None]
    if walked.closed and len(closed) == len(graph.order):
        draft.set_stage(slug, completed_at=now)
        completed = {name for name, stage in draft.stages.items() if stage.completed_at is not None}
        if completed.issuperset(compiled_dag.order):
            draft.set_run(completed_at=now)


def recreate_job(draft: RunDraft, job: Job, **values: object) -> Job:
    """Add a job with the stage, step, model and work of another job; `values` set other fields."""
    fresh = Job(
        id=draft.moment.new_id(),
        stage=job.stage,
        step_key=job.step_key,
        job_type=job.job_type,
        model=job.model,
        rank=job.rank,
        unit=job.unit,
        ready_at=draft.moment.now,
    )
    fresh = fresh._replace(**values)  # type: ignore[arg-type]  # the keys are fields of Job
    draft.add_job(fresh)
    return fresh


def add_document(
    draft: RunDraft, job: Job, key: str, origin: ProducedDocument, **values: object
) -> NewDocument:
    """Add a document of a job and, if the document is to be rendered, a job that renders it."""
    place = {"id": draft.moment.new_uuid(), "stage": job.stage, "step_key": job.step_key}
    fields = {**place, "job_id": job.id, "document_key": key, "origin": origin, **values}
    document = NewDocument(**fields)  # type: ignore[arg-type]  # the keys are fields of NewDocument
    draft.insert_document(document)
    if key in draft.compiled_dag.rendered_keys.get((job.stage, job.step_key), ()):
        recreate_job(
            draft,
            job,
            job_type=JobType.RENDER,
            model=origin.model,
            unit=None,
            document=document.id,
            counted=False,
        )
    return document
