"""Definitions of DAGs for tests, as users write them."""

from collections.abc import Sequence

from worlds import Body


def a_recipe_step(key: str, strategy: str = "per_model", **more: object) -> Body:
    """A step that executes, and makes a document of its own name that people can read."""
    outputs = [{"documentKey": key, "render": "{{ content|markdown }}"}]
    named = {"stepKey": key, "jobType": "EXECUTE", "granularityStrategy": strategy}
    return {**named, "inputsRequired": [], "outputs": outputs, **more}


def a_stage(slug: str, *steps: Body, edges: Sequence[tuple[str, str]] = ()) -> Body:
    return {"slug": slug, "recipe": {"steps": [*steps], "edges": [[*edge] for edge in edges]}}


def a_definition(slug: str, *stages: Body, **more: object) -> Body:
    """Stages one after the other."""
    return {"slug": slug, "name": slug, "stages": [*stages], **more}
