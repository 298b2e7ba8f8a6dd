"""What a definition of the right form may still have wrong, all of it, each with its place."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from waybook.dag.dependencies import hidden_dependencies
from waybook.dag.faults import Fault
from waybook.dag.form import MOST_FAULTS
from waybook.dag.model import Dag, Input, RecipeStep, Stage, Strategy
from waybook.dag.recipe import Graph, graph_or_faults
from waybook.dag.sources import candidates
from waybook.dag.templates import Kind, fault_of
from waybook.dag.transitions import stages_before, transition_faults
from waybook.dag.warned import shown

#: Trying a template takes time: so many characters of different ones may be in a definition,
#: each counting as somewhat longer than it is.
MOST_TEMPLATE_TEXT = 1 << 19
TEMPLATE_WEIGHT = 512


def definition_faults(dag: Dag) -> list[Fault]:
    """Everything that is wrong with the structure of a DAG; of one kind in a stage, the first."""
    faults = transition_faults(dag)
    # Where the way through the stages is not clear, what comes before what is not either.
    before = {} if faults else stages_before(dag)
    for place, stage in enumerate(dag.stages):
        at = f"stages[{place}].recipe"
        graph = graph_or_faults(stage.recipe, at)
        if isinstance(graph, Graph):
            faults += islice(_primary_faults(stage, graph, at), MOST_FAULTS)
            faults += islice(hidden_dependencies(stage, graph, at), MOST_FAULTS)
        else:
            faults += graph
        faults += islice(_stage_faults(dag, stage, before, at), MOST_FAULTS)
    faults += islice(_template_faults(dag), MOST_FAULTS)
    return faults


def _primary_faults(stage: Stage, graph: Graph, at: str) -> Iterator[Fault]:
    for place, step in enumerate(stage.recipe.steps):
        if step.strategy is Strategy.PER_SOURCE_DOCUMENT and graph.predecessors[step.key]:
            found = candidates(step, stage.slug, graph)
            if len(found) != 1:
                where = f"{at}.steps[{place}]" + (".inputsRequired[0]" if step.inputs else "")
                yield Fault("primary_input", where, _told(step, found))


def _told(step: RecipeStep, found: tuple[str, ...]) -> str:
    works = f"{shown(step.key)} works per source document"
    if step.inputs is None:
        one = f"so one step alone may have an edge to it, not {len(found)}: {_some(found)}"
        return f"{works} and says nothing of inputs, {one}"
    if not step.inputs:
        return f"{works} and must say first which document it goes by"
    goes_by = f"{works} and goes by the first of its inputs, {shown(step.inputs[0].document_key)}"
    if not found:
        return f"{goes_by}, but no step of this stage with an edge to it makes that"
    return f"{goes_by}, but {len(found)} steps with an edge to it make that: {_some(found)}"


def _some(keys: Iterable[str]) -> str:
    few = [shown(key) for key in islice(keys, 4)]
    return ", ".join([*few[:3], "…"] if few[3:] else few)


def _stage_faults(
    dag: Dag, stage: Stage, before: Mapping[str, frozenset[str]], at: str
) -> Iterator[Fault]:
    slugs = {other.slug for other in dag.stages}
    known = {None, stage.slug} | before.get(stage.slug, slugs)
    for step_place, step in enumerate(stage.recipe.steps):
        for place, wanted in enumerate(step.inputs or ()):
            if wanted.stage not in known:
                where = f"{at}.steps[{step_place}].inputsRequired[{place}].stage"
                yield _stage_fault(wanted, stage, slugs, where)


def _stage_fault(wanted: Input, stage: Stage, slugs: set[str], where: str) -> Fault:
    if wanted.stage not in slugs:
        return Fault("unknown_stage", where, f"there is no stage {shown(wanted.stage)}")
    told = f"no transitions lead from {shown(wanted.stage)} to {shown(stage.slug)}"
    return Fault("later_stage", where, f"{told}, so nothing of it is there yet")


def _template_faults(dag: Dag) -> Iterator[Fault]:
    told: dict[tuple[str, Kind], str | None] = {}
    left = MOST_TEMPLATE_TEXT
    for where, text, kind in _templates(dag):
        if (text, kind) not in told:
            left -= len(text) + TEMPLATE_WEIGHT
            if left < 0:
                yield Fault("too_large", where, "the definition has too many templates")
                return
            told[text, kind] = fault_of(text, kind)
        message = told[text, kind]
        if message is not None:
            yield Fault("bad_template", where, message)


def _templates(dag: Dag) -> Iterator[tuple[str, str, Kind]]:
    """Every text with placeholders, and where; a text without a brace has none."""
    for place, stage in enumerate(dag.stages):
        for number, step in enumerate(stage.recipe.steps):
            where = f"stages[{place}].recipe.steps[{number}]"
            if "{" in step.prompt:
                yield f"{where}.prompt", step.prompt, Kind.PROMPT
            for output_number, output in enumerate(step.outputs):
                if output.render and "{" in output.render:
                    yield f"{where}.outputs[{output_number}].render", output.render, Kind.DOCUMENT
