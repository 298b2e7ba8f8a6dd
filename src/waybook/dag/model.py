"""Data model of a workflow: stages with their recipes (steps and edges), and their statuses."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class JobType(StrEnum):
    """Kind of job. RENDER jobs are done by the server, and do not count as progress."""

    PLAN = "PLAN"
    EXECUTE = "EXECUTE"
    RENDER = "RENDER"


class Strategy(StrEnum):
    """Strategy that splits a step into jobs."""

    ALL_TO_ONE = "all_to_one"
    PER_MODEL = "per_model"
    PER_SOURCE_DOCUMENT = "per_source_document"
    PER_SOURCE_DOCUMENT_BY_LINEAGE = "per_source_document_by_lineage"
    PAIRWISE_BY_ORIGIN = "pairwise_by_origin"
    PER_SOURCE_GROUP = "per_source_group"
    PER_ITEM = "per_item"
    PER_ITEM_AND_MODEL = "per_item_and_model"


class JobStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    RETRYING = "retrying"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRY_LOOP_FAILED = "retry_loop_failed"
    SUPERSEDED = "superseded"


#: Statuses of failed jobs, which are not retried automatically.
FAILED_JOB = frozenset({JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A document that a step reads, from its own stage, an earlier stage, or outside the run."""

    document_key: str
    #: Stage that produces the document. None for the step's own stage.
    stage: str | None = None
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    document_key: str
    #: Template that renders the document for people. None if people do not read the document.
    render: str | None = None


class RecipeStep(NamedTuple):
    """A step of a stage.

    It is a tuple to save memory, because a stage may have ten thousand steps.
    """

    key: str
    number: int
    name: str
    job_type: JobType
    strategy: Strategy
    output_type: str
    inputs: tuple[Input, ...] | None = None
    outputs: tuple[Output, ...] = ()
    parallel_group: int | str | None = None
    prompt: str = ""
    skip: bool = False
    max_items: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    steps: tuple[RecipeStep, ...]
    edges: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    slug: str
    name: str
    recipe: Recipe


@dataclass(frozen=True, slots=True)
class Transition:
    """Link from a stage to a later one, which starts after a person's feedback."""

    source: str
    target: str
    condition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dag:
    slug: str
    name: str
    stages: tuple[Stage, ...]
    transitions: tuple[Transition, ...] = ()
    description: str = ""

    def stage(self, slug: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.slug == slug), None)

    def before(self, slug: str) -> tuple[str, ...]:
        sources = {t.source for t in self.transitions if t.target == slug}
        return tuple(stage.slug for stage in self.stages if stage.slug in sources)

    def after(self, slug: str) -> tuple[str, ...]:
        targets = {t.target for t in self.transitions if t.source == slug}
        return tuple(stage.slug for stage in self.stages if stage.slug in targets)


class ProgressStatus(StrEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class RunState(StrEnum):
    """Overall state of a run. If several states apply, the run is in the one listed first."""

    COMPLETED = "completed"
    #: A person or agent canceled the run before it was complete.
    CANCELED = "canceled"
    #: A step has failed permanently. Work on other steps may continue.
    FAILED = "failed"
    #: No work is possible until a person gives feedback on a completed stage.
    AWAITING_FEEDBACK = "awaiting_feedback"
    IN_PROGRESS = "in_progress"


class DrawingFormat(StrEnum):
    SVG = "svg"
    MERMAID = "mermaid"
    MARKDOWN = "markdown"
