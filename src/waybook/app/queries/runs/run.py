"""Read-only queries for one run."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Flag, auto
from functools import cached_property
from typing import TypeAlias, cast

from waybook.app.queries.agent_names import load_agent_names
from waybook.app.queries.forecast import run_forecast
from waybook.app.request.access import load_run
from waybook.app.request.reply import cancellation_view, origin_view
from waybook.app.request.request_context import RequestContext
from waybook.core.actions import Facts, Kind
from waybook.core.forecasts import Forecast
from waybook.core.ids import id_or_nil
from waybook.core.shown import Shown, word_of
from waybook.core.usage import Totals
from waybook.dag.expansion.inputs import StageCounts
from waybook.dag.model import RunState
from waybook.dag.progress.report import (
    AvailableDocument,
    Report,
    StageReport,
    StepReport,
    report,
    shown_stage,
    shown_step,
)
from waybook.dag.progress.structure import structure_counts, valid_structure
from waybook.json_values import Body, Json, non_empty
from waybook.plan.progress import progress_json
from waybook.run.made_from import outdated_documents
from waybook.run.model import CompiledDag, Run
from waybook.run.status import awaiting_feedback, run_evidence, run_state, state_of_run
from waybook.store.driver.queries import Row
from waybook.store.runs import jobs, load, work
from waybook.store.runs.load import (
    ReadableRow,
    RunBriefRow,
)

MAX_WORKERS = 500
_MAX_HISTORY, _MAX_FEED = 12, 60
MAX_FAILURES = 100
_MAX_MODELS_LISTED = 20
_MAX_TIMELINE_JOBS = 400

FailedJob: TypeAlias = Row
JobCount: TypeAlias = Row
DocumentListItem: TypeAlias = ReadableRow


class RunInclude(Flag):
    NOTHING = 0
    BRIEF = auto()
    WORKERS = auto()
    HISTORY = auto()
    FAILURES = auto()
    DOCUMENTS = auto()
    JOB_COUNTS = auto()
    MODEL_USAGE = auto()
    JOB_TIMES = auto()
    FINISHED_RUNS = auto()
    STAGE_FIGURES = auto()
    #: A longer history.
    FEED = auto()
    BOARD = BRIEF | WORKERS | HISTORY
    ALL = BOARD | FAILURES | DOCUMENTS
    PAGE = BOARD | FAILURES | JOB_COUNTS | MODEL_USAGE | JOB_TIMES | FINISHED_RUNS


@dataclass(frozen=True, kw_only=True)
class RunDetail:
    run: Run
    compiled_dag: CompiledDag
    now: datetime
    report: Report
    input_text: Json
    created_at: datetime | None
    created_by: str
    workers: tuple[Row, ...]
    history: tuple[Row, ...]
    failures: tuple[FailedJob, ...]
    documents: list[DocumentListItem]
    #: Ids of the documents that were made from an input that now has a newer version.
    outdated: Collection[str] = ()
    job_counts: Sequence[Row] = ()
    stage_figures: Sequence[Row] = ()
    model_usage: tuple[tuple[str, Totals], ...] = ()
    job_times: tuple[Row, ...] = ()
    finished_runs: Sequence[Row] = ()

    @property
    def is_closed(self) -> bool:
        return (self.run.completed_at or self.run.canceled_at) is not None

    @property
    def awaiting(self) -> str | None:
        """Return the stage that awaits feedback, unless another stage is in progress."""
        return awaiting_feedback(self.run, self.compiled_dag)

    @property
    def state(self) -> RunState:
        return run_state(self.run, self.compiled_dag)

    @property
    def shown(self) -> Shown:
        return state_of_run(self.run, self.compiled_dag)

    @property
    def facts(self) -> Facts:
        return Facts(Kind.RUN, self.shown, failed=len(self.run.failed_steps))

    def facts_of_job(self, state: Shown) -> Facts:
        return Facts(Kind.JOB, state, within=self.shown)

    def state_of_stage(self, stage: StageReport) -> Shown:
        awaits = stage["stageSlug"] == self.awaiting
        return shown_stage(stage, is_over=self.run.canceled_at is not None, awaits=awaits)

    def state_of_step(self, step: StepReport) -> Shown:
        return shown_step(step, is_over=self.run.canceled_at is not None)

    @property
    def stages_done(self) -> int:
        return self.report["dagProgress"]["completedStages"]

    @property
    def stages_total(self) -> int:
        return self.report["dagProgress"]["totalStages"]

    def stage_report(self, slug: str) -> StageReport:
        return next(item for item in self.report["stages"] if item["stageSlug"] == slug)

    @property
    def steps_done(self) -> int:
        return sum(step.closed_at is not None for step in self.run.steps.values())

    @property
    def steps_total(self) -> int:
        return self.compiled_dag.steps_total

    @property
    def documents_available(self) -> int:
        return sum(stage["documentsAvailable"] for stage in self.report["stages"])

    @property
    def documents_expected(self) -> int | None:
        stages = (s for s in self.report["stages"] if s["stageSlug"] in self.run.stages)
        counts = [stage["documentsExpected"] for stage in stages]
        return None if None in counts else sum(count or 0 for count in counts)

    @property
    def full_report(self) -> Body:
        return {
            **cast("Body", self.report),
            "status": str(self.state),
            "state": word_of(self.shown),
            **non_empty(awaitingFeedback=self.awaiting),
            "progress": progress_json(self.steps_done, self.steps_total),
            "usage": self.run.usage.as_reply(),
            **non_empty(copiedFrom=origin_view(self.run)),
            **cancellation_view(self.run),
        }

    @cached_property
    def expected(self) -> Mapping[str, StageCounts]:
        """Return the expected numbers of jobs and documents of each stage, if they are known."""
        dag, stages = self.compiled_dag, self.run.stages
        models = {slug: stage.models for slug, stage in stages.items()}
        structure = valid_structure(dag.dag, dag.graphs)
        return structure_counts(structure, models, self.run.lengths)

    @cached_property
    def forecast(self) -> Forecast | None:
        return run_forecast(
            self.run,
            self.expected,
            len(self.compiled_dag.order),
            self.finished_runs,
            (self.now - (self.created_at or self.now)).total_seconds(),
        )


async def read_run_detail(ctx: RequestContext, run_id: str, include: RunInclude) -> RunDetail:
    """Read a run with the requested parts, all from the same state of the database."""
    run_id = id_or_nil(run_id)
    if include is RunInclude.BOARD:
        await load_agent_names(ctx)
    lists_documents = RunInclude.DOCUMENTS in include
    documents = jobs.SQL["readable"] if lists_documents else jobs.SQL["available"]
    events = _MAX_FEED if RunInclude.FEED in include else _MAX_HISTORY
    parts = {
        RunInclude.BRIEF: load.SQL["run_brief"](run_id=run_id),
        RunInclude.WORKERS: jobs.SQL["workers"](run_id=run_id, most=MAX_WORKERS),
        RunInclude.HISTORY: load.SQL["run_recent_events"](run_id=run_id, most=events),
        RunInclude.FAILURES: jobs.SQL["failures"](run_id=run_id, most=MAX_FAILURES),
        RunInclude.JOB_COUNTS: work.SQL["job_counts"](run_id=run_id),
        RunInclude.STAGE_FIGURES: work.SQL["stage_figures"](run_id=run_id),
        RunInclude.MODEL_USAGE: work.SQL["model_usage"](run_id=run_id, most=_MAX_MODELS_LISTED),
        RunInclude.JOB_TIMES: work.SQL["job_times"](run_id=run_id, most=_MAX_TIMELINE_JOBS),
        RunInclude.FINISHED_RUNS: work.SQL["finished_runs"](slug=None, run_id=run_id),
    }
    wanted = [part for part in parts if part in include]
    versions = jobs.SQL["versions"](run_id=run_id, always=False)
    more = (parts[part] for part in wanted)
    loaded, dag, results = await load_run(ctx, run_id, documents(run_id=run_id), versions, *more)
    available, version_rows, *included = results
    run, outdated = loaded.run, outdated_documents(dag, jobs.read_versions(version_rows))
    rows = {**dict.fromkeys(parts, ()), **dict(zip(wanted, included, strict=True))}
    links = [
        (
            d.stage,
            AvailableDocument(d.document_key, d.model, d.resource_id, d.document_id in outdated),
        )
        for d in available
    ]
    structure, ranks = valid_structure(dag.dag, dag.graphs), dag.dispatch_ranks
    brief: RunBriefRow | None = next(iter(rows[RunInclude.BRIEF]), None)
    return RunDetail(
        run=run,
        compiled_dag=dag,
        now=loaded.now,
        report=report(structure, run_evidence(run, links), lengths=run.lengths),
        input_text=brief.input if brief else None,
        created_at=brief.created_at if brief else None,
        created_by=brief.created_by if brief else "",
        # The jobs of a canceled run still name their last holder, who no longer works on them.
        workers=() if run.canceled_at else tuple(rows[RunInclude.WORKERS]),
        history=tuple(reversed(rows[RunInclude.HISTORY])),
        failures=tuple(rows[RunInclude.FAILURES]),
        documents=sorted(
            available if lists_documents else (), key=lambda d: ranks[d.stage, d.step_key]
        ),
        outdated=outdated,
        job_counts=rows[RunInclude.JOB_COUNTS],
        stage_figures=rows[RunInclude.STAGE_FIGURES],
        model_usage=work.read_model_usage(rows[RunInclude.MODEL_USAGE]),
        job_times=tuple(reversed(rows[RunInclude.JOB_TIMES])),
        finished_runs=rows[RunInclude.FINISHED_RUNS],
    )
