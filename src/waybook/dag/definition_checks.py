"""What a definition of the right form may still have wrong, all of it, each with its place."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from waybook.dag.dependencies import hidden_dependencies
from waybook.dag.faults import Diagnostic
from waybook.dag.form import MAX_ERRORS
from waybook.dag.model import Dag, Input, RecipeStep, Stage, Strategy
from waybook.dag.recipe import Graph, graph_or_errors
from waybook.dag.sources import primary_source_candidates
from waybook.dag.templates import TemplateKind, template_error
from waybook.dag.transitions import stages_before, transition_errors
from waybook.dag.warned import quote_name

#: Trying a template takes time: so many characters of different ones may be in a definition,
#: each counting as somewhat longer than it is.
MAX_TEMPLATE_LENGTH = 1 << 19
TEMPLATE_OVERHEAD = 512


def definition_errors(dag: Dag) -> list[Diagnostic]:
    """Everything that is wrong with the structure of a DAG; of one kind in a stage, the first."""
    faults = transition_errors(dag)
    # Where the way through the stages is not clear, what comes before what is not either.
    before = {} if faults else stages_before(dag)
    for place, stage in enumerate(dag.stages):
        at = f"stages[{place}].recipe"
        graph = graph_or_errors(stage.recipe, at)
        if isinstance(graph, Graph):
            faults += islice(_primary_faults(stage, graph, at), MAX_ERRORS)
            faults += islice(hidden_dependencies(stage, graph, at), MAX_ERRORS)
        else:
            faults += graph
        faults += islice(_stage_faults(dag, stage, before, at), MAX_ERRORS)
    faults += islice(_template_faults(dag), MAX_ERRORS)
    return faults


def _primary_faults(stage: Stage, graph: Graph, at: str) -> Iterator[Diagnostic]:
    for place, step in enumerate(stage.recipe.steps):
        if step.strategy is Strategy.PER_SOURCE_DOCUMENT and graph.predecessors[step.key]:
            found = primary_source_candidates(step, stage.slug, graph)
            if len(found) != 1:
                where = f"{at}.steps[{place}]" + (".inputsRequired[0]" if step.inputs else "")
                yield Diagnostic("primary_input", where, _told(step, found))


def _told(step: RecipeStep, found: tuple[str, ...]) -> str:
    works = f"{quote_name(step.key)} works per source document"
    if step.inputs is None:
        one = f"so one step alone may have an edge to it, not {len(found)}: {_some(found)}"
        return f"{works} and says nothing of inputs, {one}"
    if not step.inputs:
        return f"{works} and must say first which document it goes by"
    goes_by = (
        f"{works} and goes by the first of its inputs, {quote_name(step.inputs[0].document_key)}"
    )
    if not found:
        return f"{goes_by}, but no step of this stage with an edge to it makes that"
    return f"{goes_by}, but {len(found)} steps with an edge to it make that: {_some(found)}"


def _some(keys: Iterable[str]) -> str:
    few = [quote_name(key) for key in islice(keys, 4)]
    return ", ".join([*few[:3], "…"] if few[3:] else few)


def _stage_faults(
    dag: Dag, stage: Stage, before: Mapping[str, frozenset[str]], at: str
) -> Iterator[Diagnostic]:
    slugs = {other.slug for other in dag.stages}
    known = {None, stage.slug} | before.get(stage.slug, slugs)
    for step_place, step in enumerate(stage.recipe.steps):
        for place, wanted in enumerate(step.inputs or ()):
            if wanted.stage not in known:
                where = f"{at}.steps[{step_place}].inputsRequired[{place}].stage"
                yield _stage_fault(wanted, stage, slugs, where)


def _stage_fault(wanted: Input, stage: Stage, slugs: set[str], where: str) -> Diagnostic:
    if wanted.stage not in slugs:
        return Diagnostic("unknown_stage", where, f"there is no stage {quote_name(wanted.stage)}")
    told = f"no transitions lead from {quote_name(wanted.stage)} to {quote_name(stage.slug)}"
    return Diagnostic("later_stage", where, f"{told}, so nothing of it is there yet")


def _template_faults(dag: Dag) -> Iterator[Diagnostic]:
    told: dict[tuple[str, TemplateKind], str | None] = {}
    left = MAX_TEMPLATE_LENGTH
    for where, text, kind in _templates(dag):
        if (text, kind) not in told:
            left -= len(text) + TEMPLATE_OVERHEAD
            if left < 0:
                yield Diagnostic("too_large", where, "the definition has too many templates")
                return
            told[text, kind] = template_error(text, kind)
        message = told[text, kind]
        if message is not None:
            yield Diagnostic("bad_template", where, message)


def _templates(dag: Dag) -> Iterator[tuple[str, str, TemplateKind]]:
    """Every text with placeholders, and where; a text without a brace has none."""
    for place, stage in enumerate(dag.stages):
        for number, step in enumerate(stage.recipe.steps):
            where = f"stages[{place}].recipe.steps[{number}]"
            if "{" in step.prompt:
                yield f"{where}.prompt", step.prompt, TemplateKind.PROMPT
            for output_number, output in enumerate(step.outputs):
                if output.render and "{" in output.render:
                    yield (
                        f"{where}.outputs[{output_number}].render",
                        output.render,
                        TemplateKind.DOCUMENT,
                    )
