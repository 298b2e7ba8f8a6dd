"""Import of plans from Mermaid flowcharts."""

import pytest

from waybook.dag.diagram.model import Diagram, DiagramStep, Lane
from waybook.dag.diagram.text import mermaid
from waybook.errors import InvalidInput
from waybook.importers.formats import PlanFormat, detect_format, read_plan
from waybook.importers.steps import ImportedPlan


def names(plan: ImportedPlan) -> list[str]:
    return [step.title or step.instructions.split("\n")[0] for step in plan.steps]


def test_mermaid_nodes_become_steps_in_executable_order() -> None:
    text = """---
title: Release
---
%% a comment
flowchart TD
    D[Deploy] --> E((Tell users))
    A["Build [all]"]:::fast --> B{Tests pass?} & C([Docs<br/>and pictures])
    B -- yes --> D
    B -->|no| F>Fix]
    C ==> D; F -.-> E
    X --- A
    classDef fast fill:#fff
    style A stroke:#333
"""
    assert detect_format(text) is PlanFormat.MERMAID
    plan = read_plan(text)
    assert plan.name == "Release"
    assert names(plan) == ["Build [all]", "Tests pass?", "Docs", "Deploy", "Fix", "Tell users", "X"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (1,), (2, 3), (2,), (4, 5), ()]
    assert plan.steps[3].instructions == "Deploy\nOnly if “Tests pass?” gives: yes"
    assert plan.steps[2].instructions == "Docs\nand pictures"
    assert plan.lines[:2] == (7, 7)


def test_arrow_between_mermaid_subgraphs_connects_every_pair_of_nodes() -> None:
    text = "graph LR\nsubgraph one\na-->b\nend\nsubgraph two[Second]\nc\nend\none --> two\n"
    plan = read_plan(text)
    assert names(plan) == ["a", "b", "c"]
    assert [step.depends_on for step in plan.steps] == [(), (1,), (1, 2)]


@pytest.mark.parametrize(
    "link", ["-->", "--->", "==>", "-.->", "-..->", "-- t -->", "-->|t|", "== t ==>", "-. t .->"]
)
def test_every_kind_of_mermaid_arrow_is_a_dependency(link: str) -> None:
    plan = read_plan(f"graph TD\n  one-1 {link} two_2\n")
    assert names(plan) == ["one-1", "two_2"]
    assert plan.steps[1].depends_on == (1,)


@pytest.mark.parametrize("link", ["---", "-.-", "===", "~~~", "-- t ---", "--o", "--x"])
def test_mermaid_link_without_arrow_is_no_dependency(link: str) -> None:
    plan = read_plan(f"graph TD\n  a {link} b\n")
    assert [step.depends_on for step in plan.steps] == [(), ()]


def test_exported_mermaid_diagram_has_the_same_steps_after_import() -> None:
    names_in = ['Say "hi" & <go>', "Count #1; stop", "Ends"]
    steps = tuple(DiagramStep(str(n), name, "custom") for n, name in enumerate(names_in))
    lane = Lane(slug="plan", name="", steps=steps, edges=(("0", "1"), ("0", "2"), ("1", "2")))
    plan = read_plan(mermaid(Diagram(name="x", lanes=(lane,))))
    assert names(plan) == names_in
    assert [step.depends_on for step in plan.steps] == [(), (1,), (1, 2)]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("flowchart LR\n", 1, "no nodes"),
        ("flowchart LR\na[b\n", 2, "is not closed"),
        ("flowchart LR\na b\n", 2, "a link such as --> is expected"),
        ("flowchart LR\na -->\n", 2, "a node is expected"),
        ("flowchart LR\na --> b\nb --> a\n", 3, "wait for each other"),
        ("flowchart LR\na <--> b\n", 2, "both directions"),
        ("flowchart LR\nsubgraph x\na\n", 3, "the subgraph x has no end"),
        ("flowchart LR\nend\n", 2, "“end” without a subgraph"),
        ("flowchart LR\na" + "-->b" * 3_000, 2, "more than 10,000 characters"),
        (
            "graph TD\n"
            + " & ".join(f"a{n}" for n in range(150))
            + " --> "
            + " & ".join(f"b{n}" for n in range(150)),
            2,
            "more than 20,000 arrows",
        ),
        (
            "graph TD\nsubgraph s\n" + "\n".join(f"n{n}" for n in range(150)) + "\nend\n"
            "subgraph t\n" + "\n".join(f"m{n}" for n in range(150)) + "\nend\ns --> t\n",
            306,
            "more than 20,000 arrows",
        ),
    ],
)
def test_unusable_flowchart_is_refused_with_a_line_number(text: str, line: int, words: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_plan(text)
    assert refusal.value.message.startswith(f"line {line}: ")
    assert words in refusal.value.message


def test_mermaid_labels_and_descriptions_may_have_several_lines() -> None:
    text = (
        "graph LR\n  accDescr {\n    The way --> of it\n  }\n"
        '  a["\n\n  Ask\n  twice\n  "];\n  b[Done]\n'
        '  click a "/x" "two\n  lines"\n  %% a "comment\n  a --> b\n'
    )
    plan = read_plan(text, PlanFormat.MERMAID)
    assert [step.instructions for step in plan.steps] == ["Ask\ntwice", "Done"]
    assert plan.steps[1].depends_on == (1,)


def test_unclosed_quote_in_mermaid_is_refused_with_the_line() -> None:
    lines = "\n".join(f"  n{number} --> m" for number in range(40))
    with pytest.raises(InvalidInput) as refused:
        read_plan(f'graph LR\n  a["open\n{lines}\n', PlanFormat.MERMAID)
    assert refused.value.details["line"] == 2
