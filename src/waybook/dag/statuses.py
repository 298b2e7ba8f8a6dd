"""Statuses of runs, stages and steps, and formats of their diagrams."""

from enum import StrEnum


class ProgressStatus(StrEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


class RunState(StrEnum):
    """Overall state of a run: the first of these that applies."""

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
