"""Checks the structure of a workflow definition.

If a step needs a document of its stage, it must come after the step that produces the document. If
a step is split into one job per item of a list, the list must be a single document: a part of the
run's input, or the only document of a PLAN step.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial, reduce
from itertools import chain, islice
from operator import or_
from types import NoneType
from typing import Any, cast

from waybook.dag.diagnostics import Diagnostic, quote_name
from waybook.dag.expansion.inputs import FEEDBACK
from waybook.dag.expansion.units import ITEM_STRATEGIES, fans_out, list_place
from waybook.dag.graph import (
    Graph,
    find_cycle,
    graph_or_errors,
    output_keys,
    primary_source_candidates,
    producers,
)
from waybook.dag.model import Dag, JobType, RecipeStep, Stage, Strategy
from waybook.dag.templates.template import TemplateKind, template_error

Schema = Mapping[str, Any]
Check = Callable[[object], Sequence[Diagnostic]]

MAX_ERRORS = 100
_MAX_QUOTE_LENGTH = 60

_KINDS: Mapping[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    int: "integer",
    bool: "boolean",
    NoneType: "null",
}
_WORDS: Mapping[str, str] = {
    "object": "an object",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "boolean": "true or false",
    "null": "null",
    "number": "a number with a fraction",
    "something else": "something else",
}


def compile_check(schema: Schema, *, strict: bool = True) -> Check:
    """Return a checking function. Unknown properties are errors only if `strict` is set."""
    return partial(_Checker(schema.get("$defs", {}), strict=strict).check, schema)


class _Checker:
    def __init__(self, named: Mapping[str, Schema], *, strict: bool) -> None:
        self._named = named
        self._strict = strict

    def check(self, schema: Schema, value: object) -> Sequence[Diagnostic]:
        return () if self._are_valid(schema, [value]) else self._errors(schema, value, "")

    def _resolved(self, schema: Schema) -> tuple[Schema, Sequence[str]]:
        if "$ref" in schema:
            schema = self._named[schema["$ref"].removeprefix("#/$defs/")]
        kinds = schema["type"]
        return schema, [kinds] if isinstance(kinds, str) else kinds

    def _are_valid(self, schema: Schema, values: Sequence[object]) -> bool:
        """Return False if a value is invalid, or of a type that only the slower check accepts."""
        schema, kinds = self._resolved(schema)
        for kind in (present := set(map(type, values))):
            if _KINDS.get(kind) not in kinds:
                return False
            some = values if len(present) == 1 else [v for v in values if type(v) is kind]
            if kind is dict:
                valid = self._are_valid_objects(
                    schema, cast("Sequence[Mapping[str, object]]", some)
                )
            elif kind is list:
                valid = self._are_valid_lists(schema, cast("Sequence[Sequence[object]]", some))
            elif kind is str and "enum" not in schema:
                valid = _are_valid_texts(schema, set(cast("Sequence[str]", some)))
            else:
                valid = not any(_scalar_error(schema, value) for value in set(some))
            if not valid:
                return False
        return True

    def _are_valid_objects(self, schema: Schema, objects: Sequence[Mapping[str, object]]) -> bool:
        properties, required = schema["properties"], schema.get("required", ())
        if self._strict and not properties.keys() >= set(chain.from_iterable(objects)):
            return False
        for name, inner in properties.items():
            column = [fields[name] for fields in objects if name in fields]
            if len(column) < len(objects) and name in required:
                return False
            if not self._are_valid(inner, column):
                return False
        return True

    def _are_valid_lists(self, schema: Schema, lists: Sequence[Sequence[object]]) -> bool:
        sizes = range(schema.get("minItems", 0), schema["maxItems"] + 1)
        return all(size in sizes for size in set(map(len, lists))) and self._are_valid(
            schema["items"], list(chain.from_iterable(lists))
        )

    def _errors(self, schema: Schema, value: object, at: str) -> Sequence[Diagnostic]:
        schema, kinds = self._resolved(schema)
        kind = _kind_of(value)
        if kind not in kinds:
            wanted = " or ".join(_WORDS[name] for name in kinds)
            return [Diagnostic("bad_form", at, f"must be {wanted}, not {_WORDS[kind]}")]
        if isinstance(value, dict):
            return self._object_errors(schema, value, at)
        if isinstance(value, list):
            return self._list_errors(schema, value, at)
        message = _scalar_error(schema, value)
        name = schema.get("x-fault", "bad_form")
        return [Diagnostic(name, at, message)] if message else ()

    def _object_errors(
        self, schema: Schema, fields: Mapping[str, object], at: str
    ) -> Sequence[Diagnostic]:
        properties = schema["properties"]
        missing = [name for name in schema.get("required", ()) if name not in fields]
        errors = [Diagnostic("bad_form", at, f"{name!r} is missing") for name in missing]
        for name, inner in fields.items():
            if name in properties:
                errors += self._errors(properties[name], inner, f"{at}.{name}")
        unknown = (name for name in fields if self._strict and name not in properties)
        for name in islice(unknown, MAX_ERRORS):
            near = _did_you_mean(name, properties)
            message = f"there is no property {_quoted(name)} here{near}"
            errors.append(Diagnostic("bad_form", at, message))
        return errors

    def _list_errors(
        self, schema: Schema, items: Sequence[object], at: str
    ) -> Sequence[Diagnostic]:
        least, most = schema.get("minItems", 0), schema["maxItems"]
        if len(items) < least:
            message = f"must have at least {least:,} items, not {len(items):,}"
            return [Diagnostic(schema.get("x-fault", "bad_form"), at, message)]
        if len(items) > most:
            message = f"must have at most {most:,} items, not {len(items):,}"
            return [Diagnostic("bad_form", at, message)]
        errors: list[Diagnostic] = []
        for place, item in enumerate(items):
            errors += self._errors(schema["items"], item, f"{at}[{place}]")
            if len(errors) > MAX_ERRORS:
                break
        return errors


def _are_valid_texts(schema: Schema, texts: set[str]) -> bool:
    together, refused = "".join(texts), schema.get("not", {}).get("pattern")
    sizes = range(schema.get("minLength", 0), schema["maxLength"] + 1)
    return (
        all(size in sizes for size in set(map(len, texts)))
        and not (refused and re.search(refused, together))
        and not _is_broken(together)
    )


def _scalar_error(schema: Schema, value: object) -> str | None:
    if isinstance(value, str) and "enum" in schema:
        choices = schema["enum"]
        message = f"{_quoted(value)} is not one of {', '.join(choices)}"
        return None if value in choices else message + _did_you_mean(value, choices)
    if isinstance(value, str):
        return _text_error(schema, value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        least, most = schema["minimum"], schema["maximum"]
        return None if least <= value <= most else f"must be between {least:,} and {most:,}"
    return None


def _text_error(schema: Schema, text: str) -> str | None:
    if len(text) < schema.get("minLength", 0):
        return "must not be empty"
    if len(text) > schema["maxLength"]:
        return f"has {len(text):,} characters; at most {schema['maxLength']:,} are allowed"
    if "not" in schema and re.search(schema["not"]["pattern"], text):
        return "contains a control character, which is not allowed"
    if _is_broken(text):
        return "contains half a character (a lone surrogate); send well-formed Unicode"
    return None


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _kind_of(value: object) -> str:
    kind = _KINDS.get(type(value))
    if kind is None and isinstance(value, float):
        kind = "integer" if value.is_integer() else "number"
    return kind or "something else"


def _quoted(value: object) -> str:
    if not isinstance(value, str):
        return _WORDS[_kind_of(value)]
    return repr(value if len(value) <= _MAX_QUOTE_LENGTH else f"{value[:_MAX_QUOTE_LENGTH]}…")


def _did_you_mean(value: object, known: Iterable[str]) -> str:
    if not isinstance(value, str):
        return ""
    spelt = {_plain(name): name for name in known}
    near = get_close_matches(_plain(value[:_MAX_QUOTE_LENGTH]), spelt, n=1)
    return f"; did you mean {spelt[near[0]]!r}?" if near else ""


def _plain(name: str) -> str:
    return re.sub("[-_ ]", "", name.casefold())


def _steps(dag: Dag) -> Iterator[tuple[str, Stage, RecipeStep]]:
    for number, stage in enumerate(dag.stages):
        for place, step in enumerate(stage.recipe.steps):
            yield f"stages[{number}].recipe.steps[{place}]", stage, step


def _item_list_errors(dag: Dag, graphs: Mapping[str, Graph]) -> Iterator[Diagnostic]:
    for where, stage, step in _steps(dag):
        if step.strategy in ITEM_STRATEGIES:
            if message := _list_error(dag, stage, step, graphs):
                at = f"{where}.inputsRequired" + ("[0]" if step.inputs else "")
                yield Diagnostic("item_list", at, f"{quote_name(step.key)} {message}")
        elif step.max_items is not None:
            message = f"{quote_name(step.key)} is not split by items, so it has no maxItems"
            yield Diagnostic("max_items", f"{where}.maxItems", message)


def _list_error(
    dag: Dag, stage: Stage, step: RecipeStep, graphs: Mapping[str, Graph]
) -> str | None:
    place = list_place(step, stage.slug)
    if place is None or not step.inputs:
        return "is split by items, so its first input must be the list"
    slug, key = place
    source = dag.stage(slug)
    makers = [maker for maker in source.recipe.steps if key in output_keys(maker)] if source else []
    names = " and ".join(quote_name(maker.key) for maker in makers)
    is_wrong = {
        "but that is a text": key == FEEDBACK,
        "so this input must be required": not step.inputs[0].required,
        f"but several steps produce that: {names}": len(makers) > 1,
        f"so {names}, which produces that, must be an all_to_one PLAN step": any(
            (maker.job_type, maker.strategy) != (JobType.PLAN, Strategy.ALL_TO_ONE)
            for maker in makers
        ),
        f"but {names} produces that once per model, for the per_source_document step after it": any(
            slug in graphs and fans_out(maker, graphs[slug]) for maker in makers
        ),
    }
    error = next((why for why, holds in is_wrong.items() if holds), None)
    return error and f"is split by the items of {quote_name(key)}, {error}"


MAX_PRODUCERS_CHECKED = 20

#: A set of steps, stored as an integer with one bit per step so that unions are fast.
_Bits = int


def hidden_dependencies(stage: Stage, graph: Graph, at: str) -> Iterator[Diagnostic]:
    """Yield an error for each required document of the stage that no earlier step produces."""
    makers = producers(stage) if any(step.inputs for step in stage.recipe.steps) else {}
    needs = [
        (f"{at}.steps[{number}].inputsRequired[{place}]", step.key, wanted.document_key)
        for number, step in enumerate(stage.recipe.steps)
        for place, wanted in enumerate(step.inputs or ())
        if wanted.required and wanted.stage in {None, stage.slug} and wanted.document_key in makers
    ]
    if not needs:
        return
    bit: dict[str, _Bits] = {key: 1 << place for place, key in enumerate(graph.order)}
    upto: dict[str, _Bits] = {}
    for key in graph.order:
        before = (upto[source] for source in graph.predecessors[key])
        upto[key] = reduce(or_, before, bit[key])
    made = {
        document: sum(bit[maker] for maker in makers[document])
        for document in {document for *_, document in needs}
    }
    for where, key, document in needs:
        if not made[document] & (upto[key] ^ bit[key]):
            why = _dependency_message(key, makers[document], bit, upto)
            message = f"{quote_name(key)} needs {quote_name(document)}{why}"
            yield Diagnostic("hidden_dependency", where, message)


def _dependency_message(
    key: str, makers: tuple[str, ...], bit: Mapping[str, _Bits], upto: Mapping[str, _Bits]
) -> str:
    others = [maker for maker in islice(makers, MAX_PRODUCERS_CHECKED) if maker != key]
    if not others:
        return ", which only this step produces"
    free = next((maker for maker in others if not upto[maker] & bit[key]), None)
    if free is None:
        return f", which {quote_name(others[0])} produces, but that step depends on this one"
    return (
        f", which {quote_name(free)} produces, but no path of edges leads from that step "
        f"to this one: add the edge [{free!r}, {key!r}]"
    )


def transition_errors(dag: Dag) -> list[Diagnostic]:
    """Return the errors in the names of stages and transitions.

    If all names are valid, return the errors in how transitions connect stages, such as a cycle.
    """
    return [*_name_faults(dag)] or [*_shape_faults(dag)]


def stages_before(dag: Dag) -> Mapping[str, frozenset[str]]:
    before: dict[str, frozenset[str]] = {}
    waiting = {stage.slug: set(dag.before(stage.slug)) for stage in dag.stages}
    while ready := [slug for slug, sources in waiting.items() if sources <= before.keys()]:
        for slug in ready:
            sources = waiting.pop(slug)
            before[slug] = frozenset(sources).union(*(before[source] for source in sources))
    return before


def _name_faults(dag: Dag) -> Iterator[Diagnostic]:
    slugs: set[str] = set()
    for place, stage in enumerate(dag.stages):
        if stage.slug in slugs:
            message = f"the slug {quote_name(stage.slug)} is used twice"
            yield Diagnostic("duplicate_stage", f"stages[{place}].slug", message)
        slugs.add(stage.slug)
    seen: set[tuple[str, str]] = set()
    for place, way in enumerate(dag.transitions):
        where = f"transitions[{place}]"
        for end, slug in (("from", way.source), ("to", way.target)):
            if slug not in slugs:
                message = f"there is no stage {quote_name(slug)}"
                yield Diagnostic("unknown_stage", f"{where}.{end}", message)
        if (way.source, way.target) in seen:
            ends = f"from {quote_name(way.source)} to {quote_name(way.target)}"
            message = f"the transition {ends} occurs twice"
            yield Diagnostic("duplicate_transition", where, message)
        seen.add((way.source, way.target))


def _shape_faults(dag: Dag) -> Iterator[Diagnostic]:
    slugs = [stage.slug for stage in dag.stages]
    before = {slug: dag.before(slug) for slug in slugs}
    stuck = set(slugs) - stages_before(dag).keys()
    if stuck:
        around = find_cycle(before, stuck)
        yield Diagnostic("stage_cycle", "transitions", f"the stages form a cycle: {around}")
    for name, place, leads, ends in (
        ("several_entries", "first", "leads to", [slug for slug in slugs if not before[slug]]),
        ("several_terminals", "last", "leads from", [s for s in slugs if not dag.after(s)]),
    ):
        if ends[1:]:
            names = ", ".join(map(quote_name, ends))
            message = f"exactly one stage must be the {place}, but no transition {leads} any of"
            yield Diagnostic(name, "transitions", f"{message} {names}")


#: Maximum total length of a definition's templates, which limits the time for checking them.
MAX_TEMPLATE_LENGTH = 1 << 19
_TEMPLATE_OVERHEAD = 512


def check_structure(dag: Dag) -> tuple[list[Diagnostic], dict[str, Graph]]:
    faults = transition_errors(dag)
    # If the transitions have errors, the order of the stages is unknown.
    before = {} if faults else stages_before(dag)
    graphs: dict[str, Graph] = {}
    for place, stage in enumerate(dag.stages):
        at = f"stages[{place}].recipe"
        graph = graph_or_errors(stage.recipe, at)
        if isinstance(graph, Graph):
            graphs[stage.slug] = graph
            faults += islice(_primary_faults(stage, graph, at), MAX_ERRORS)
            faults += islice(hidden_dependencies(stage, graph, at), MAX_ERRORS)
        else:
            faults += graph
        faults += islice(_stage_errors(dag, stage, before, at), MAX_ERRORS)
    faults += islice(_item_list_errors(dag, graphs), MAX_ERRORS)
    faults += islice(_template_faults(dag), MAX_ERRORS)
    return faults, graphs


def _primary_faults(stage: Stage, graph: Graph, at: str) -> Iterator[Diagnostic]:
    for place, step in enumerate(stage.recipe.steps):
        if step.strategy is Strategy.PER_SOURCE_DOCUMENT and graph.predecessors[step.key]:
            candidates = primary_source_candidates(step, stage.slug, graph)
            if len(candidates) != 1:
                where = f"{at}.steps[{place}]" + (".inputsRequired[0]" if step.inputs else "")
                yield Diagnostic("primary_input", where, _lineage_message(step, candidates))


def _lineage_message(step: RecipeStep, candidates: tuple[str, ...]) -> str:
    works = f"{quote_name(step.key)} works per source document"
    names = f"{len(candidates)}: {_some(candidates)}"
    if step.inputs is None:
        return f"{works} and lists no inputs, so only one step may have an edge to it, not {names}"
    if not step.inputs:
        return f"{works}, so its first input must be a document"
    goes_by = f"{works} and is split by its first input, {quote_name(step.inputs[0].document_key)}"
    if not candidates:
        return f"{goes_by}, but no step of this stage with an edge to it produces that"
    several = f"{len(candidates)} steps with an edge to it produce that: {_some(candidates)}"
    return f"{goes_by}, but {several}"


def _some(keys: Iterable[str]) -> str:
    few = [quote_name(key) for key in islice(keys, 4)]
    return ", ".join([*few[:3], "…"] if few[3:] else few)


def _stage_errors(
    dag: Dag, stage: Stage, before: Mapping[str, frozenset[str]], at: str
) -> Iterator[Diagnostic]:
    slugs = {other.slug for other in dag.stages}
    known = {None, stage.slug} | before.get(stage.slug, slugs)
    for step_place, step in enumerate(stage.recipe.steps):
        for place, wanted in enumerate(step.inputs or ()):
            if wanted.stage in known:
                continue
            where = f"{at}.steps[{step_place}].inputsRequired[{place}].stage"
            named = quote_name(wanted.stage)
            if wanted.stage not in slugs:
                yield Diagnostic("unknown_stage", where, f"there is no stage {named}")
            else:
                message = f"no transitions lead from {named} to {quote_name(stage.slug)}"
                message += ", so its documents are not available"
                yield Diagnostic("later_stage", where, message)


def _template_faults(dag: Dag) -> Iterator[Diagnostic]:
    errors: dict[tuple[str, TemplateKind], str | None] = {}
    left = MAX_TEMPLATE_LENGTH
    for where, text, kind in _templates(dag):
        if (text, kind) not in errors:
            left -= len(text) + _TEMPLATE_OVERHEAD
            if left < 0:
                yield Diagnostic("too_large", where, "the templates are too many or too long")
                return
            errors[text, kind] = template_error(text, kind)
        message = errors[text, kind]
        if message is not None:
            yield Diagnostic("bad_template", where, message)


def _templates(dag: Dag) -> Iterator[tuple[str, str, TemplateKind]]:
    for where, _, step in _steps(dag):
        if "{" in step.prompt:
            yield f"{where}.prompt", step.prompt, TemplateKind.PROMPT
        for number, output in enumerate(step.outputs):
            if output.render and "{" in output.render:
                yield f"{where}.outputs[{number}].render", output.render, TemplateKind.DOCUMENT
