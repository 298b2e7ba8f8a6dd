"""Types of the replies that the client returns.

docs/reference/tools.md describes each field.
"""

from typing import Any, Literal, NotRequired, TypedDict

JsonValue = Any

OnError = Literal["retry", "fail", "keep"]
Until = Literal["complete", "idle"]


class _SuggestedCall(TypedDict):
    """Tool call that the server suggests as the next one."""

    tool: str
    args: dict[str, JsonValue]
    why: str


class Progress(TypedDict):
    percent: int
    done: int
    total: int


class Usage(TypedDict, total=False):
    """Tokens and cost of the work on a step or job."""

    inputTokens: int
    outputTokens: int
    model: str
    costUsd: float


class NewStep(TypedDict):
    """Step of a plan that is being created."""

    stepType: str
    instructions: str
    title: NotRequired[str]
    dependsOn: NotRequired[list[int]]
    resultSchema: NotRequired[dict[str, JsonValue]]
    requiredSources: NotRequired[int]


class CreatedPlan(TypedDict):
    planId: str
    stepIds: list[str]
    next: _SuggestedCall


class StepContext(TypedDict):
    """Context of a step, cut to a token budget."""

    planId: str
    planName: str
    researchQuestion: str
    stepId: str
    stepOrder: int
    stepType: str
    status: str
    attempt: int
    title: NotRequired[str]
    instructions: NotRequired[str]
    resultSchema: NotRequired[dict[str, JsonValue]]
    feedback: NotRequired[list[dict[str, JsonValue]]]
    failures: NotRequired[list[dict[str, JsonValue]]]
    soFar: NotRequired[list[dict[str, JsonValue]]]
    earlierResults: NotRequired[list[dict[str, JsonValue]]]
    artifacts: NotRequired[list[dict[str, JsonValue]]]
    cut: NotRequired[dict[str, JsonValue]]
    next: _SuggestedCall


class SubmittedStep(TypedDict):
    """State of a step and its plan after a result was submitted."""

    planId: str
    stepId: str
    stepStatus: str
    planStatus: str
    progress: Progress
    branches: list[dict[str, JsonValue]]
    conditionErrors: NotRequired[list[dict[str, JsonValue]]]
    budget: NotRequired[dict[str, JsonValue]]
    reason: NotRequired[str]
    next: _SuggestedCall


class RequestedReview(TypedDict):
    planId: str
    reviewId: str
    stepId: str
    stepStatus: str
    planStatus: str
    reviewUrl: str
    next: _SuggestedCall


class StartedRun(TypedDict):
    runId: str
    next: _SuggestedCall


class JobInput(TypedDict):
    """Input of a job. `cut` has the call that fetches the rest of a long text."""

    documentKey: str
    content: str
    documentId: NotRequired[str]
    stageSlug: NotRequired[str]
    modelId: NotRequired[str]
    lineage: NotRequired[str]
    createdBy: NotRequired[str]
    createdAt: NotRequired[str]
    cut: NotRequired[dict[str, JsonValue]]


class JobDocument(TypedDict):
    """Document that a job has to produce."""

    documentKey: str
    modelId: NotRequired[str]


class SubmittedDocument(TypedDict):
    """Document submitted for a job that produces several."""

    content: JsonValue
    documentKey: NotRequired[str]
    modelId: NotRequired[str]


class SubmittedJob(TypedDict):
    """State of a job, its stage and its run after a result was submitted."""

    runId: str
    jobId: str
    jobStatus: str
    documentIds: list[str]
    stage: dict[str, JsonValue]
    runComplete: bool
    continuation: NotRequired[dict[str, JsonValue]]
    runUrl: NotRequired[str]
    next: _SuggestedCall


class FailedJob(TypedDict):
    runId: str
    jobId: str
    status: str
    attemptsLeft: int
    retryAt: NotRequired[str]
    next: _SuggestedCall
