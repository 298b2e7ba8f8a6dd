"""Workflow definitions for tests, in the format that users write."""

from collections.abc import Sequence

from org_env import Body


def make_recipe_step(key: str, strategy: str = "per_model", **more: object) -> Body:
    """Return an `EXECUTE` step whose rendered document has the same key as the step."""
    outputs = [{"documentKey": key, "render": "{{ content|markdown }}"}]
    named = {"stepKey": key, "jobType": "EXECUTE", "granularityStrategy": strategy}
    return {**named, "inputsRequired": [], "outputs": outputs, **more}


def make_stage(slug: str, *steps: Body, edges: Sequence[tuple[str, str]] = ()) -> Body:
    return {"slug": slug, "recipe": {"steps": [*steps], "edges": [[*edge] for edge in edges]}}


def make_definition(slug: str, *stages: Body, **more: object) -> Body:
    return {"slug": slug, "name": slug, "stages": [*stages], **more}
