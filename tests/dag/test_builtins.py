"""Built-in workflows and the example workflow: they are valid, and their prompts are complete."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from waybook.conditions.values import Json
from waybook.dag.definitions.definition import read_definition
from waybook.dag.definitions.source_text import builtin_definitions
from waybook.dag.graph import output_keys
from waybook.dag.model import Dag, Output, RecipeStep, Stage
from waybook.dag.templates.rendering import render
from waybook.dag.templates.template import TemplateKind, render_template
from waybook.errors import BadRecipe
from waybook.json_values import parse_content

EXAMPLE = Path(__file__).parents[2] / "examples" / "dag.yaml"
TEXTS = {**builtin_definitions(), "example": EXAMPLE.read_text("utf-8")}
DAGS = {name: read_definition(yaml.safe_load(text)) for name, text in TEXTS.items()}
MODELS = ["opus", "gpt", "gemini", "llama"]

each_dag = pytest.mark.parametrize("dag", DAGS.values(), ids=DAGS)
STEPS = [
    (dag, stage, step)
    for dag in DAGS.values()
    for stage in dag.stages
    for step in stage.recipe.steps
]
each_step = pytest.mark.parametrize(
    ("dag", "stage", "step"), STEPS, ids=[f"{dag.slug}-{step.key}" for dag, _, step in STEPS]
)


@each_dag
def test_builtin_workflow_has_description_and_transition_conditions(dag: Dag) -> None:
    assert len(dag.description) > 80
    assert all(transition.condition for transition in dag.transitions)


def test_dialectic_workflow_has_five_stages_linked_in_a_chain() -> None:
    dag = DAGS["dialectic"]
    assert [(stage.slug, stage.name, len(stage.recipe.steps)) for stage in dag.stages] == [
        ("thesis", "Proposal", 5),
        ("antithesis", "Review", 7),
        ("synthesis", "Refinement", 13),
        ("parenthesis", "Planning", 4),
        ("paralysis", "Implementation", 4),
    ]
    assert [(way.source, way.target) for way in dag.transitions] == [
        ("thesis", "antithesis"),
        ("antithesis", "synthesis"),
        ("synthesis", "parenthesis"),
        ("parenthesis", "paralysis"),
    ]


ADDED = [
    ("parenthesis", "generate-technical_requirements", "generate-master-plan"),
    ("parenthesis", "generate-master-plan", "generate-milestone-schema"),
    ("paralysis", "generate-actionable-checklist", "generate-updated-master-plan"),
]


@pytest.mark.parametrize(("slug", "source", "target"), ADDED)
def test_dialectic_workflow_without_the_edge_for_an_input_is_refused(
    slug: str, source: str, target: str
) -> None:
    definition = yaml.safe_load(TEXTS["dialectic"])
    stage = next(stage for stage in definition["stages"] if stage["slug"] == slug)
    stage["recipe"]["edges"].remove([source, target])
    with pytest.raises(BadRecipe) as refusal:
        read_definition(definition)
    assert refusal.value.details["fault"] == "hidden_dependency"


def prompt_context(
    dag: Dag, stage: Stage, step: RecipeStep, *, models: list[str], feedback: str | None
) -> Mapping[str, Json]:
    """Return the values for the placeholders in the prompt of a step."""
    inputs: list[Json] = [
        {
            "documentKey": wanted.document_key,
            "stage": wanted.stage or stage.slug,
            "model": model,
            "lineage": f"thesis/thesis_build_stage_header/{model}",
            "title": wanted.document_key.replace("_", " "),
        }
        for wanted in step.inputs or ()
        for model in models
    ]
    return {
        "run": {"name": "A tea shop", "input": "Open a tea shop in Kassel."},
        "stage": {"slug": stage.slug, "name": stage.name},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "model": models[0],
        "lineage": f"{dag.stages[0].slug}/header/{models[-1]}",
        "reviewer": models[-1],
        "models": list(models),
        "documents": [{"documentKey": output.document_key} for output in step.outputs],
        "inputs": inputs,
        "feedback": feedback,
    }


@each_step
def test_builtin_prompts_contain_names_of_outputs_and_required_inputs(
    dag: Dag, stage: Stage, step: RecipeStep
) -> None:
    context = prompt_context(dag, stage, step, models=MODELS[:2], feedback=None)
    prompt = render_template(step.prompt, TemplateKind.PROMPT, context)
    needed = {wanted.document_key for wanted in step.inputs or () if wanted.required}
    assert {key for key in {*output_keys(step), *needed} if f"`{key}`" not in prompt} == set()
    assert "{%" not in prompt
    assert "None" not in prompt


@each_step
def test_builtin_prompts_specify_format_length_and_quality(
    dag: Dag, stage: Stage, step: RecipeStep
) -> None:
    if dag.slug in builtin_definitions():
        context = prompt_context(dag, stage, step, models=MODELS[:2], feedback=None)
        prompt = render_template(step.prompt, TemplateKind.PROMPT, context)
        assert "Markdown" in prompt or "JSON" in prompt
        assert re.search(r"\d words|tasks|objects", prompt)
        assert "is good if" in prompt.replace("\n", " ")


@each_dag
def test_prompts_of_later_stages_of_builtin_workflows_include_feedback(dag: Dag) -> None:
    for stage in dag.stages[1:]:
        prompts = [
            render_template(
                step.prompt,
                TemplateKind.PROMPT,
                prompt_context(dag, stage, step, models=MODELS[:2], feedback="Only green tea!"),
            )
            for step in stage.recipe.steps
        ]
        assert any("Only green tea!" in prompt for prompt in prompts), stage.slug


PAGES = [
    (dag.slug, step, output)
    for dag, _, step in STEPS
    for output in step.outputs
    if output.render is not None
]
TEXT = "# A title\n\nSome *text* with a [link](https://example.org)."
OBJECT = """{"title": "A title", "answer": "Some text", "question": "Why?", "purpose": "To know.",
 "subQuestions": [{"question": "Who?", "answeredBy": "A list."}, "Where?"],
 "findings": [{"id": "F1", "claim": "It | is", "confidence": 0.7, "sources": ["S1"]}],
 "sources": [{"id": "S1", "title": "A book", "url": "https://example.org"}],
 "openToYou": [{"question": "When?", "otherwise": "Now."}]}"""


@pytest.mark.parametrize("content", [TEXT, OBJECT, "{}", "[]", "", "[1, 2]"])
@pytest.mark.parametrize(
    ("slug", "step", "output"), PAGES, ids=[f"{slug}-{out.document_key}" for slug, _, out in PAGES]
)
def test_builtin_document_templates_render_any_model_output(
    slug: str, step: RecipeStep, output: Output, content: str
) -> None:
    context: Mapping[str, Json] = {
        "run": {"name": "A tea shop", "input": "Open a tea shop."},
        "stage": {"slug": slug, "name": slug},
        "step": {"key": step.key, "name": step.name, "outputType": step.output_type},
        "document": {
            "key": output.document_key,
            "title": output.document_key.replace("_", " ").title(),
            "model": "opus",
            "lineage": "thesis/header/opus",
            "version": 2,
        },
        "content": parse_content(content),
        "text": content,
    }
    document = render(output.render, context)
    assert "could not be rendered" not in document.html
    if content == TEXT:
        assert "<h1>A title</h1>" in document.html
    if content == OBJECT:
        assert "Some text" in document.html or "Why?" in document.html


def test_builtin_findings_template_renders_a_table_with_source_links() -> None:
    output = next(output for _, _, output in PAGES if output.document_key == "findings")
    document = render(
        output.render,
        {"document": {"model": "opus"}, "content": parse_content(OBJECT), "text": OBJECT},
    )
    assert "<td>It | is</td>" in document.html
    assert '<a href="https://example.org"' in document.html
