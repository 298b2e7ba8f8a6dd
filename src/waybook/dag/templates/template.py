"""Templates of prompts and documents. They are checked when written, and rendered within limits."""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from types import MappingProxyType
from typing import Any

from waybook.conditions.values import Json
from waybook.dag.diagnostics import Diagnostic, bad_recipe_error
from waybook.errors import TooLarge

DEFAULT_DOCUMENT = "{{ content|markdown }}"


class TemplateKind(StrEnum):
    PROMPT = "prompt"
    DOCUMENT = "document"


_PLACE: Mapping[str, Json] = MappingProxyType(
    {
        "run": {"name": "Sample", "input": {"question": "What is it?"}},
        "stage": {"slug": "sample", "name": "Sample"},
        "step": {"key": "sample", "name": "Sample", "outputType": "sample"},
    }
)
#: Sample values for checking templates. Their keys are the variables that a template may use.
SAMPLE_CONTEXTS: Mapping[TemplateKind, Mapping[str, Json]] = MappingProxyType(
    {
        TemplateKind.PROMPT: {
            **_PLACE,
            "model": "model-1",
            "lineage": "sample/sample/model-1",
            "reviewer": None,
            "item": {"number": 1, "count": 30, "text": "Sample"},
            "models": ["model-1", "model-2"],
            "documents": [{"documentKey": "sample"}],
            "inputs": [
                {
                    "documentKey": "sample",
                    "stage": "sample",
                    "model": "model-1",
                    "lineage": "sample/sample/model-1",
                    "title": "Sample",
                }
            ],
            "feedback": None,
        },
        TemplateKind.DOCUMENT: {
            **_PLACE,
            "document": {
                "key": "sample",
                "title": "Sample",
                "model": "model-1",
                "lineage": "sample/sample/model-1",
                "version": 1,
            },
            "content": {"title": "Sample", "items": [{"name": "One"}]},
            "text": "Sample",
        },
    }
)


def _engine() -> Any:  # noqa: ANN401 - a module
    """Import the engine only when a template is used, because importing Jinja is slow."""
    return import_module("waybook.dag.templates.engine")


def template_error(text: str, kind: TemplateKind) -> str | None:
    engine = _engine()
    try:
        engine.render_template(_compiled(text, kind), SAMPLE_CONTEXTS[kind])
    except (engine.TemplateRuleError, engine.TemplateBudgetExceeded) as error:
        return str(error)
    return None


def is_constant(text: str) -> bool:
    return "{" not in text


def render_template(text: str, kind: TemplateKind, context: Mapping[str, Json]) -> str:
    """Render the prompt of a job, or a document as Markdown.

    Raises:
        BadRecipe: the template is not valid, or uses a name that the context lacks.
        TooLarge: the text would be too long, or need too many operations.
    """
    engine = _engine()
    try:
        if is_constant(text):
            return _render_constant(text, kind)
        rendered: str = engine.render_template(_compiled(text, kind), context)
    except (engine.TemplateRuleError, engine.UndefinedError) as error:
        diagnostic = Diagnostic("template", f"the {kind} template", str(error))
        raise bad_recipe_error([diagnostic]) from error
    except engine.TemplateBudgetExceeded as error:
        raise TooLarge(f"the {kind} template: {error}", kind=str(kind)) from error
    return rendered


@lru_cache(maxsize=64)
def _render_constant(text: str, kind: TemplateKind) -> str:
    rendered: str = _engine().render_template(_compiled(text, kind), {})
    return rendered


@lru_cache(maxsize=512)
def _compiled(text: str, kind: TemplateKind) -> object:
    return _engine().compile_template(text, frozenset(SAMPLE_CONTEXTS[kind]))
