"""The words of a map: a DAG of stages, each a recipe of steps and edges.

These are structure only. Where a run stands on it is evidence, and comes in from outside.
"""

from dataclasses import dataclass
from enum import StrEnum


class JobType(StrEnum):
    """What a job does. RENDER is the server's own, never part of a recipe nor of progress."""

    PLAN = "PLAN"
    EXECUTE = "EXECUTE"
    RENDER = "RENDER"


class Strategy(StrEnum):
    """How many jobs a step has, and which: see `granularity`."""

    ALL_TO_ONE = "all_to_one"
    PER_MODEL = "per_model"
    PER_SOURCE_DOCUMENT = "per_source_document"
    PER_SOURCE_DOCUMENT_BY_LINEAGE = "per_source_document_by_lineage"
    PAIRWISE_BY_ORIGIN = "pairwise_by_origin"
    PER_SOURCE_GROUP = "per_source_group"


class JobStatus(StrEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    RETRYING = "retrying"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRY_LOOP_FAILED = "retry_loop_failed"
    SUPERSEDED = "superseded"


#: A job that will not be tried again by itself.
FAILED_JOB = frozenset({JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED})


class ProgressStatus(StrEnum):
    """Where a step or a stage stands."""

    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A document a step reads: of its own stage, of an earlier one, or from outside."""

    document_key: str
    #: The stage it comes from; None is the step's own stage.
    stage: str | None = None
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A document each unit of a step makes."""

    document_key: str
    #: The template it is rendered with; None if it is not for people to read.
    render: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeStep:
    key: str
    number: int
    name: str
    job_type: JobType
    strategy: Strategy
    output_type: str
    #: None where nothing is said of inputs; then the only predecessor is the primary one.
    inputs: tuple[Input, ...] | None = None
    outputs: tuple[Output, ...] = ()
    parallel_group: int | str | None = None
    prompt: str = ""
    skip: bool = False


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
    """The way from a stage to the next; a person's feedback opens it."""

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
        """The stage of this slug."""
        return next((stage for stage in self.stages if stage.slug == slug), None)

    def before(self, slug: str) -> tuple[str, ...]:
        """The stages with a transition into this one, in declared order."""
        sources = {t.source for t in self.transitions if t.target == slug}
        return tuple(stage.slug for stage in self.stages if stage.slug in sources)

    def after(self, slug: str) -> tuple[str, ...]:
        """The stages this one has a transition to, in declared order."""
        targets = {t.target for t in self.transitions if t.source == slug}
        return tuple(stage.slug for stage in self.stages if stage.slug in targets)
