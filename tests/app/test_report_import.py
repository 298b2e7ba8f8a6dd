"""The import of a Markdown report restores the steps of the plan."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from waybook.app.queries.work_export import ExportedRows, plan_report_text
from waybook.core.hidden_characters import contains_hidden
from waybook.importers.formats import read_plan
from waybook.plan.model import NewStep, StepType

#: Characters that a report does not change. Blanks may be collapsed or stripped, and hidden
#: characters are escaped.
PRINTABLE = st.characters(exclude_categories=["C", "Z"])
WORDS = st.text(PRINTABLE, max_size=30).filter(lambda text: not contains_hidden(text))
TEXTS = WORDS | st.builds("{}{}{}".format, WORDS, st.sampled_from(["<b>", "&lt;", "&amp;"]), WORDS)
TITLES = TEXTS.filter(bool)
INSTRUCTIONS = st.lists(TEXTS, min_size=1, max_size=4).map("\n".join)


@st.composite
def plans(draw: st.DrawFn) -> list[NewStep]:
    steps = []
    for order in range(1, draw(st.integers(1, 6)) + 1):
        before = st.sets(st.integers(1, order - 1)) if order > 1 else st.just(set[int]())
        instructions = draw(INSTRUCTIONS.filter(lambda text: text == text.strip() and text))
        first = instructions.split("\n")[0]
        title = draw(st.none() | TITLES)
        steps.append(
            NewStep(
                type=draw(st.sampled_from(list(StepType))),
                title=None if title == first else title,
                instructions=instructions,
                depends_on=tuple(sorted(draw(before))),
            )
        )
    return steps


@given(plans(), st.sampled_from(["pending", "completed", "failed", "awaiting_input"]))
def test_import_of_plan_report_restores_the_steps_of_any_plan(
    steps: list[NewStep], status: str
) -> None:
    noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    plan = {"name": "Name", "research_question": "Why?", "status": "executing"}
    stamped = {**plan, "created_by": "ann", "created_at": noon.isoformat()}
    rows = {
        str(order): {
            "order": order,
            "type": str(step.type),
            "title": step.title,
            "status": status,
            "attempt": 1,
            "instructions": step.instructions,
            "depends_on": [str(before) for before in step.depends_on],
            "result_summary": "# 1. Result\n- [ ] no step",
            "confidence": 0.5,
        }
        for order, step in enumerate(steps, start=1)
    }
    report = plan_report_text(
        ExportedRows(
            kind="plan",
            id="p",
            name="Name",
            now=noon,
            seq=0,
            rows={"plan": {"p": stamped}, "step": rows},  # type: ignore[dict-item]
        )
    )
    imported = read_plan(report, include_done=True)
    assert list(imported.steps) == steps
    assert (imported.name, imported.question) == ("Name", "Why?")
