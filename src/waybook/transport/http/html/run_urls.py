"""URLs of the pages of a run."""

from urllib.parse import quote


def run_step_url(run_id: str, stage: str, key: str) -> str:
    """Return the URL of the page of a run's step.

    Slugs and keys may contain any character. A slash is escaped as in a JSON pointer, because
    servers decode `%2F` before they match routes.

    >>> run_step_url("r", "a/b", "c d~")
    '/runs/r/steps/a~1b/c%20d~0'
    """
    return f"/runs/{run_id}/steps/{to_segment(stage)}/{to_segment(key)}"


def run_stage_url(run_id: str, stage: str) -> str:
    return f"/runs/{run_id}/stages/{to_segment(stage)}"


def to_segment(text: str) -> str:
    return quote(text.replace("~", "~0").replace("/", "~1"), safe="~")


def from_segment(text: str) -> str:
    """Return the slug or key in a segment of a URL from `run_step_url`.

    >>> from_segment("a~1b"), from_segment("c d~0")
    ('a/b', 'c d~')
    """
    return text.replace("~1", "/").replace("~0", "~")


def run_document_url(run_id: str, resource_id: str) -> str:
    return f"/runs/{run_id}/documents/{resource_id}"
