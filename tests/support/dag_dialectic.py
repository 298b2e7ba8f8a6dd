"""DAG with five stages for tests of job counts: propose, review, merge, plan, build."""

from collections.abc import Sequence

from dag_builders import make_chain, make_dag, make_input, make_plan_step, make_stage, make_step
from waybook.dag.model import Dag, RecipeStep, Stage, Strategy

S = Strategy
ASPECTS = ("case", "features", "approach", "metrics")
REVIEWS = ("critique", "feasibility", "risks", "qualities", "dependencies", "comparison")
FINALS = ("requirements", "architecture", "stack")


def fan(source: str, targets: Sequence[str]) -> list[tuple[str, str]]:
    return [(source, target) for target in targets]


def propose() -> Stage:
    header = make_plan_step("header", inputs=["brief"])
    parts = [make_step(key, S.PER_SOURCE_DOCUMENT, inputs=["header"]) for key in ASPECTS]
    return make_stage("propose", header, *parts, edges=fan("header", ASPECTS))


def review() -> Stage:
    proposals = [make_input(key, "propose") for key in ASPECTS]
    header = make_plan_step("header", S.PER_SOURCE_DOCUMENT_BY_LINEAGE, inputs=proposals)
    first = make_input("header", "review")
    parts = [make_step(key, S.PER_SOURCE_DOCUMENT, inputs=[first, *proposals]) for key in REVIEWS]
    return make_stage("review", header, *parts, edges=fan("header", REVIEWS))


def merge() -> Stage:
    pairs = [_pair(key, REVIEWS[place]) for place, key in enumerate(ASPECTS)]
    wholes = [make_step(f"whole-{key}", S.PER_MODEL, inputs=[f"pair-{key}"]) for key in ASPECTS]
    merged = [step.key for step in wholes]
    last = make_plan_step("last", inputs=merged)
    finals = [make_step(key, S.ALL_TO_ONE, inputs=["last", *merged]) for key in FINALS]
    edges = [
        *fan("first", [pair.key for pair in pairs]),
        *[way for key in ASPECTS for way in make_chain(f"pair-{key}", f"whole-{key}", "last")],
        *fan("last", FINALS),
    ]
    return make_stage("merge", make_plan_step("first"), *pairs, *wholes, last, *finals, edges=edges)


def _pair(aspect: str, reviewed: str) -> RecipeStep:
    inputs = [make_input("first"), make_input(aspect, "propose"), make_input(reviewed, "review")]
    return make_step(f"pair-{aspect}", S.PAIRWISE_BY_ORIGIN, inputs=inputs)


def planned(slug: str, *keys: str) -> Stage:
    """Return a stage: a step with a single `PLAN` job, then steps with one job per model."""
    steps = [make_step(key, S.PER_MODEL) for key in keys]
    return make_stage(slug, make_plan_step("header"), *steps, edges=make_chain("header", *keys))


def dialectic() -> Dag:
    return make_dag(
        propose(),
        review(),
        merge(),
        planned("plan", "technical", "master", "milestones"),
        planned("build", "checklist", "update", "advice"),
    )
