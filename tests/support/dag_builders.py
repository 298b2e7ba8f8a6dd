"""Builders for DAG tests: steps, recipes (the steps of a stage), stages, DAGs, random DAGs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from hypothesis import strategies as st

from waybook.dag.expansion.units import ITEM_STRATEGIES
from waybook.dag.model import (
    Dag,
    Input,
    JobType,
    Output,
    Recipe,
    RecipeStep,
    Stage,
    Strategy,
    Transition,
)

Edges = Sequence[tuple[str, str]]
ItemT = TypeVar("ItemT")

EXTERNAL = ("brief", "feedback")
#: Key of the list of items in the input of random runs.
ITEMS = "items"
#: Key of a document that several steps of a random recipe may produce.
COMMON = "common"
#: Hypothesis strategy for numbers; a `_Dice` derives the properties of a step from a number.
NUMBERS = st.integers(0, 2**96)


def make_input(document_key: str, stage: str | None = None, *, required: bool = True) -> Input:
    return Input(document_key=document_key, stage=stage, required=required)


def make_output(document_key: str, render: str | None = None) -> Output:
    return Output(document_key=document_key, render=render)


def make_step(
    key: str,
    strategy: Strategy = Strategy.PER_MODEL,
    *,
    inputs: Iterable[str | Input] | None = None,
    outputs: Iterable[str | Output] = (),
    **values: object,
) -> RecipeStep:
    """Return a step with `EXECUTE` jobs; a string in `inputs` or `outputs` is a document key."""
    step = RecipeStep(
        key=key,
        number=0,
        name=key,
        job_type=JobType.EXECUTE,
        strategy=strategy,
        output_type=key,
        inputs=None if inputs is None else tuple(map(_as_input, inputs)),
        outputs=tuple(map(_as_output, outputs)),
    )
    return step._replace(**values)  # type: ignore[arg-type]  # fields of RecipeStep


def make_plan_step(
    key: str, strategy: Strategy = Strategy.ALL_TO_ONE, **values: object
) -> RecipeStep:
    return make_step(key, strategy, job_type=JobType.PLAN, **values)  # type: ignore[arg-type]  # as above


def _as_input(value: str | Input) -> Input:
    return value if isinstance(value, Input) else make_input(value)


def _as_output(value: str | Output) -> Output:
    return value if isinstance(value, Output) else make_output(value)


def make_recipe(*steps: RecipeStep, edges: Edges = ()) -> Recipe:
    """Return a recipe of these steps, numbered by their positions unless they have numbers."""
    placed = (
        step if step.number else step._replace(number=place)
        for place, step in enumerate(steps, start=1)
    )
    return Recipe(tuple(placed), tuple(edges))


def make_chain(*keys: str) -> Edges:
    return list(pairwise(keys))


def make_stage(slug: str, *steps: RecipeStep, edges: Edges = ()) -> Stage:
    return Stage(slug, slug, make_recipe(*(steps or (make_step(f"{slug}-work"),)), edges=edges))


def make_dag(*stages: Stage, transitions: Edges | None = None) -> Dag:
    """Return a DAG of these stages; by default, each stage follows the one before it."""
    ways = make_chain(*(stage.slug for stage in stages)) if transitions is None else transitions
    return Dag(
        slug="rivers",
        name="Rivers",
        stages=stages,
        transitions=tuple(Transition(source, target) for source, target in ways),
    )


def models(most: int = 4) -> st.SearchStrategy[list[str]]:
    names = st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta"])
    return st.lists(names, min_size=1, max_size=most, unique=True)


@dataclass(slots=True)
class _Dice:
    """Source of choices computed from one number; for 0, each choice is the first option."""

    number: int

    def pick(self, of: Sequence[ItemT]) -> ItemT:
        self.number, place = divmod(self.number, len(of))
        return of[place]

    def chance_of_one_in(self, count: int) -> bool:
        return self.pick(range(count)) == count - 1

    def some(self, of: Sequence[ItemT], most: int = 2) -> list[ItemT]:
        places = [self.pick(range(-1, len(of))) for _ in range(most)]
        return [of[place] for place in dict.fromkeys(places) if place >= 0]

    def shuffled(self, of: Sequence[ItemT]) -> list[ItemT]:
        left = list(of)
        return [left.pop(self.pick(range(len(left)))) for _ in of]


@dataclass(slots=True)
class _Draft:
    """Random recipe to which steps are added one at a time, each after its predecessors."""

    stage: str
    #: For each earlier stage, the documents that it produces.
    earlier: Mapping[str, Sequence[str]]
    steps: list[RecipeStep] = field(default_factory=list)
    edges: list[tuple[str, str]] = field(default_factory=list)
    makes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ancestors: dict[str, set[str]] = field(default_factory=dict)
    #: For each earlier stage, the documents that may contain a list of items.
    earlier_lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: Steps whose document is a list of items. No step with the strategy `per_source_document` may
    #: follow them.
    list_makers: set[str] = field(default_factory=set)

    def lists(self, keys: Iterable[str]) -> list[Input]:
        """Return the lists of items that a step after the steps `keys` can have as input."""
        earlier = [
            make_input(doc, slug) for slug, docs in self.earlier_lists.items() for doc in docs
        ]
        own = _list_documents([step for step in self.steps if step.key in keys], self)
        return [make_input(ITEMS), *(make_input(doc) for doc in own), *earlier]

    def own_documents(self, keys: Iterable[str]) -> list[str]:
        return sorted({doc for key in keys for doc in self.makes[key]} - {COMMON})

    def follows_documents(self, key: str) -> bool:
        return any(s.key == key and s.strategy is Strategy.PER_SOURCE_DOCUMENT for s in self.steps)

    def primaries(self, before: Sequence[str]) -> list[str]:
        made = [doc for key in before for doc in self.makes[key]]
        return sorted(doc for doc in set(made) if made.count(doc) == 1)


def _list_documents(steps: Sequence[RecipeStep], draft: _Draft) -> list[str]:
    sources = {edge[0] for edge in draft.edges if draft.follows_documents(edge[1])}
    makers = [
        step
        for step in steps
        if (step.strategy, step.job_type) == (Strategy.ALL_TO_ONE, JobType.PLAN)
        and step.key not in sources
    ]
    return draft.own_documents(step.key for step in makers)


@st.composite
def recipes(
    draw: st.DrawFn,
    max_steps: int = 12,
    *,
    stage: str = "stage",
    earlier: Mapping[str, Sequence[str]] | None = None,
    earlier_lists: Mapping[str, Sequence[str]] | None = None,
) -> Recipe:
    draft = _Draft(stage, earlier or {}, earlier_lists=earlier_lists or {})
    for place, number in enumerate(draw(st.lists(NUMBERS, min_size=1, max_size=max_steps))):
        _add_step(_Dice(number), draft, f"s{place}")
    dice = _Dice(draw(NUMBERS))
    steps, edges = dice.shuffled(draft.steps), dice.shuffled(draft.edges)
    if dice.chance_of_one_in(2):
        steps = [step._replace(number=place) for place, step in enumerate(steps, start=1)]
    return Recipe(tuple(steps), tuple(edges))


def _add_step(dice: _Dice, draft: _Draft, key: str) -> None:
    before = dice.some([step.key for step in draft.steps], most=3)
    strategy = dice.pick(list(Strategy))
    primary: str | None = None
    if strategy is Strategy.PER_SOURCE_DOCUMENT and before:
        primaries = draft.primaries(before)
        primary = dice.pick(primaries) if primaries else None
        strategy = strategy if primary else Strategy.PER_MODEL
        if not draft.list_makers.isdisjoint(before):
            strategy, primary = Strategy.PER_MODEL, None
    draft.ancestors[key] = {*before}.union(*(draft.ancestors[b] for b in before))
    inputs = _inputs(dice, draft, before, (key, primary))
    if strategy in ITEM_STRATEGIES:
        chosen = dice.pick(draft.lists(draft.ancestors[key]))
        draft.list_makers |= {k for k, docs in draft.makes.items() if chosen.document_key in docs}
        inputs = [chosen, *(inputs or [])]
    step = make_step(
        key,
        strategy,
        inputs=inputs,
        max_items=dice.pick([None, None, 3, 20]) if strategy in ITEM_STRATEGIES else None,
        outputs=_outputs(dice, key),
        number=dice.pick(range(1, 21)),
        job_type=dice.pick([JobType.PLAN, JobType.EXECUTE]),
        output_type=f"{key}.type",
        name=f"Step {key}",
        parallel_group=dice.pick([None, None, 1, "left"]),
        prompt=dice.pick(["", "Write it down."]),
        skip=dice.chance_of_one_in(8),
    )
    documents = dict.fromkeys(output.document_key for output in step.outputs)
    draft.makes[key] = tuple(documents) or (step.output_type,)
    draft.steps.append(step)
    draft.edges += [(b, key) for b in before]


def _inputs(
    dice: _Dice, draft: _Draft, before: Sequence[str], of: tuple[str, str | None]
) -> list[Input] | None:
    key, primary = of
    if (primary is None or len(before) == 1) and dice.chance_of_one_in(2):
        return None
    here = (None, draft.stage)
    inputs = [make_input(primary, dice.pick(here), required=primary != COMMON)] if primary else []
    needed = [*draft.own_documents(draft.ancestors[key]), *EXTERNAL]
    inputs += [make_input(doc, dice.pick(here)) for doc in dice.some(needed)]
    wished = sorted({doc for docs in draft.makes.values() for doc in docs} | {COMMON})
    inputs += [make_input(doc, required=False) for doc in dice.some(wished)]
    past = [make_input(doc, slug) for slug, docs in draft.earlier.items() for doc in docs]
    return [*inputs, *dice.some(past)]


def _outputs(dice: _Dice, key: str) -> list[Output]:
    own = [f"{key}.{number}" for number in range(dice.pick([0, 0, 1, 1, 2, 3]))]
    keys = [*own, COMMON] if dice.chance_of_one_in(6) else own
    return [make_output(doc, dice.pick([None, None, "# A document"])) for doc in keys]


@st.composite
def dags(draw: st.DrawFn, max_stages: int = 4, max_steps: int = 6) -> Dag:
    """Generate any valid DAG: usually a sequence of stages, sometimes with parallel stages."""
    slugs = [f"stage-{number}" for number in range(draw(st.integers(1, max_stages)))]
    dice = _Dice(draw(NUMBERS))
    ways = make_chain(*slugs)
    if slugs[3:] and dice.chance_of_one_in(3):
        ways = [way for slug in slugs[1:-1] for way in make_chain(slugs[0], slug, slugs[-1])]
    made: dict[str, list[str]] = {}
    lists: dict[str, list[str]] = {}
    stages = []
    for slug in slugs:
        earlier = {past: [*made[past], "feedback"] for past in _all_before(slug, ways)}
        lists_before = {past: lists[past] for past in earlier}
        recipe = draw(recipes(max_steps, stage=slug, earlier=earlier, earlier_lists=lists_before))
        lists[slug] = _lists_of(recipe)
        made[slug] = [o.document_key for step in recipe.steps for o in step.outputs]
        stages.append(Stage(slug, slug.title(), recipe))
    order = dice.shuffled(stages) if dice.chance_of_one_in(4) else stages
    return make_dag(*order, transitions=dice.shuffled(ways))


def _lists_of(recipe: Recipe) -> list[str]:
    draft = _Draft("", {}, steps=[*recipe.steps], edges=[*recipe.edges])
    for step in recipe.steps:
        documents = dict.fromkeys(output.document_key for output in step.outputs)
        draft.makes[step.key] = tuple(documents) or (step.output_type,)
    return _list_documents(recipe.steps, draft)


def _all_before(slug: str, ways: Edges) -> list[str]:
    direct = [source for source, target in ways if target == slug]
    return sorted({*direct, *(past for source in direct for past in _all_before(source, ways))})
