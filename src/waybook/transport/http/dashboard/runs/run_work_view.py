"""View models of the step page and the job page of a run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from waybook.app.context.job import JobInput, JobMaterials
from waybook.app.queries.runs.run_work import JobList, RunJobDetail, RunStepDetail
from waybook.dag.graph import Graph
from waybook.dag.model import FAILED_JOB, JobStatus, RecipeStep
from waybook.dag.progress.report import Jobs
from waybook.run.model import Run, step_id
from waybook.transport.http.dashboard.runs.run_stage_view import stage_name

MAX_OPEN_PROMPT_LENGTH = 4_000
MAX_INPUTS_LISTED = 50


@dataclass(frozen=True, slots=True)
class StepName:
    key: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStepView:
    sheet: RunStepDetail
    name: str
    stage_name: str
    status: str
    jobs: Jobs | None
    total: int
    started_at: datetime | None
    completed_at: datetime | None
    needs: Sequence[StepName]
    needed_by: Sequence[StepName]
    before: StepName | None
    after: StepName | None
    page_url: Callable[[int], str]

    @property
    def run(self) -> Run:
        return self.sheet.detail.run

    @property
    def listed(self) -> JobList:
        return self.sheet.listed


def run_step_view(sheet: RunStepDetail, page_url: Callable[[int], str]) -> RunStepView:
    dag, report, step = sheet.detail.compiled_dag, sheet.report, sheet.step
    graph = dag.graphs[sheet.stage]
    place = graph.order.index(step.key)
    opened = sheet.detail.run.steps.get(step_id(sheet.stage, step.key))
    return RunStepView(
        sheet=sheet,
        name=step.name or step.key,
        stage_name=stage_name(dag, sheet.stage),
        status=str(report["status"]) if report else "not_started",
        jobs=report["jobs"] if report else None,
        total=opened.total if opened else 0,
        started_at=opened.opened_at if opened else None,
        completed_at=opened.closed_at if opened else None,
        needs=_names(graph, graph.predecessors[step.key]),
        needed_by=_names(graph, graph.successors[step.key]),
        before=_name(graph.steps[graph.order[place - 1]]) if place else None,
        after=_name(graph.steps[graph.order[place + 1]]) if place + 1 < len(graph.order) else None,
        page_url=page_url,
    )


def _names(graph: Graph, keys: Sequence[str]) -> list[StepName]:
    return [_name(graph.steps[key]) for key in keys]


def _name(step: RecipeStep) -> StepName:
    return StepName(step.key, step.name or step.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJobView:
    sheet: RunJobDetail
    name: str
    failed: bool
    prompt: str
    inputs: Sequence[JobInput]
    more_inputs: int

    @property
    def prompt_is_long(self) -> bool:
        return len(self.prompt) > MAX_OPEN_PROMPT_LENGTH


def run_job_view(sheet: RunJobDetail, materials: JobMaterials | None) -> RunJobView:
    inputs = materials.inputs if materials else ()
    return RunJobView(
        sheet=sheet,
        name=sheet.step.name or sheet.step.key,
        failed=JobStatus(sheet.job.status) in FAILED_JOB,
        prompt=materials.prompt if materials else "",
        inputs=inputs[:MAX_INPUTS_LISTED],
        more_inputs=max(0, len(inputs) - MAX_INPUTS_LISTED),
    )
