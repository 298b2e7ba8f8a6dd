"""Templates of prompts and documents: checked when they are written, rendered within bounds.

The notation is Jinja's, cut down by `template_language`. A template that passes the check renders
whatever comes: missing fields are empty, and there is a bound on its length and on its cost.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType

from jinja2 import Template, UndefinedError

from waybook.conditions.values import Json
from waybook.dag.faults import Fault, refuse
from waybook.dag.template_budget import Exhausted
from waybook.dag.template_engine import compiled, output
from waybook.dag.template_language import TemplateFault
from waybook.errors import TooLarge

#: How a document is shown when nothing else is said: text as it is, JSON made readable.
DEFAULT_DOCUMENT = "{{ content|markdown }}"


class Kind(StrEnum):
    """What a template is for, and so which names it has."""

    PROMPT = "prompt"
    DOCUMENT = "document"


_PLACE: Mapping[str, Json] = MappingProxyType(
    {
        "run": {"name": "Sample", "input": {"question": "What is it?"}},
        "stage": {"slug": "sample", "name": "Sample"},
        "step": {"key": "sample", "name": "Sample", "outputType": "sample"},
    }
)
#: What a template is tried with when it is checked; its keys are the names there are.
SAMPLES: Mapping[Kind, Mapping[str, Json]] = MappingProxyType(
    {
        Kind.PROMPT: {
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
        Kind.DOCUMENT: {
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


def fault_of(text: str, kind: Kind) -> str | None:
    """What is wrong with a template, in one sentence with its line; None if it is good."""
    try:
        output(_compiled(text, kind), SAMPLES[kind])
    except (TemplateFault, Exhausted) as fault:
        return str(fault)
    return None


def render_prompt(text: str, context: Mapping[str, Json]) -> str:
    """The prompt of a job.

    Raises:
        BadRecipe: the template is not a good one, or the context lacks a name it uses.
        TooLarge: the prompt would be too long, or take too long.
    """
    return _rendered(text, Kind.PROMPT, context)


def render_document(text: str, context: Mapping[str, Json]) -> str:
    """The Markdown a document's template makes of it.

    Raises:
        BadRecipe: the template is not a good one, or the context lacks a name it uses.
        TooLarge: the text would be too long, or take too long.
    """
    return _rendered(text, Kind.DOCUMENT, context)


def _rendered(text: str, kind: Kind, context: Mapping[str, Json]) -> str:
    try:
        return output(_compiled(text, kind), context)
    except (TemplateFault, UndefinedError) as fault:
        raise refuse([Fault("template", f"the {kind} template", str(fault))]) from fault
    except Exhausted as fault:
        raise TooLarge(f"the {kind} template: {fault}", kind=str(kind)) from fault


@lru_cache(maxsize=512)
def _compiled(text: str, kind: Kind) -> Template:
    return compiled(text, frozenset(SAMPLES[kind]))
