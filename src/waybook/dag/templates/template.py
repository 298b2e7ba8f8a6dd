"""Templates of prompts and documents: checked when written, rendered within limits.

The notation is a subset of Jinja, defined in `language`. A template that passes the check can
render any data within limits on length and cost; missing fields are empty.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from jinja2 import Template, UndefinedError

from waybook.conditions.values import Json
from waybook.dag.diagnostics import Diagnostic, bad_recipe_error
from waybook.dag.templates.engine import TemplateBudgetExceeded, compile_template, render_template
from waybook.dag.templates.language import TemplateRuleError
from waybook.errors import TooLarge

#: Template of a document without its own: leaves text unchanged and formats JSON readably.
DEFAULT_DOCUMENT = "{{ content|markdown }}"


class TemplateKind(StrEnum):
    """Purpose of a template, which determines the variables it may use."""

    PROMPT = "prompt"
    DOCUMENT = "document"


_PLACE: Mapping[str, Json] = MappingProxyType(
    {
        "run": {"name": "Sample", "input": {"question": "What is it?"}},
        "stage": {"slug": "sample", "name": "Sample"},
        "step": {"key": "sample", "name": "Sample", "outputType": "sample"},
    }
)
#: Sample values with which each kind of template is checked; their keys are the allowed variables.
SAMPLE_CONTEXTS: Mapping[TemplateKind, Mapping[str, Json]] = MappingProxyType(
    {
        TemplateKind.PROMPT: {
            **_PLACE,
            "model": "model-1",
            "lineage": "sample/sample/model-1",
            "reviewer": None,
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


def template_error(text: str, kind: TemplateKind) -> str | None:
    """Return the error in a template with its line, or None if it is valid."""
    try:
        render_template(_compiled(text, kind), SAMPLE_CONTEXTS[kind])
    except (TemplateRuleError, TemplateBudgetExceeded) as error:
        return str(error)
    return None


def is_constant(text: str) -> bool:
    """Return whether a template has only text, so that it needs no context."""
    return "{" not in text


def render_prompt(text: str, context: Mapping[str, Json]) -> str:
    """Return the prompt of a job.

    Raises:
        BadRecipe: the template is not valid, or uses a name that the context lacks.
        TooLarge: the prompt would be too long, or take too long.
    """
    return _rendered(text, TemplateKind.PROMPT, context)


def render_document(text: str, context: Mapping[str, Json]) -> str:
    """Return the Markdown of a document, rendered by its template.

    Raises:
        BadRecipe: the template is not valid, or uses a name that the context lacks.
        TooLarge: the text would be too long, or take too long.
    """
    return _rendered(text, TemplateKind.DOCUMENT, context)


def _rendered(text: str, kind: TemplateKind, context: Mapping[str, Json]) -> str:
    try:
        if is_constant(text):
            return _render_constant(text, kind)
        return render_template(_compiled(text, kind), context)
    except (TemplateRuleError, UndefinedError) as error:
        raise bad_recipe_error(
            [Diagnostic("template", f"the {kind} template", str(error))]
        ) from error
    except TemplateBudgetExceeded as error:
        raise TooLarge(f"the {kind} template: {error}", kind=str(kind)) from error


@lru_cache(maxsize=64)
def _render_constant(text: str, kind: TemplateKind) -> str:
    return render_template(_compiled(text, kind), {})


@lru_cache(maxsize=512)
def _compiled(text: str, kind: TemplateKind) -> Template:
    return compile_template(text, frozenset(SAMPLE_CONTEXTS[kind]))
