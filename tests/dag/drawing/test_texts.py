"""Maps as Mermaid and Markdown texts."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from diagrams import annotations, make_diagram, make_lane, sketches
from waybook.dag.diagram.status_marks import Annotation, Annotations
from waybook.dag.diagram.text import escape_markdown, markdown_outline, mermaid, quote

NODE = re.compile(r'    n\d+_\d+\["[^"]*"\]')
EDGE = re.compile(r"    n\d+_\d+ --> n\d+_\d+")
OTHER = re.compile(
    r'  (subgraph s\d+\["[^"]*"\]|  direction LR|end|s\d+ ==> s\d+'
    r"|classDef \w+ [\w:#,-]+|class [\w,]+ \w+)"
)

SKETCH = make_diagram(
    make_lane("ab", [("a", "b")], slug="thesis", name="Thesis"),
    make_lane("cde", [("c", "e"), ("d", "e")], slug="antithesis", name="Antithesis"),
)
MARKS = Annotations(
    steps={
        ("thesis", "a"): Annotation("completed", "3/3"),
        ("antithesis", "d"): Annotation("failed"),
    },
    stages={"thesis": Annotation("in_progress", "1 of 2 steps")},
)


@settings(max_examples=30)
@given(st.data())
def test_mermaid_text_has_all_steps_and_edges(data: st.DataObject) -> None:
    sketch = data.draw(sketches())
    first, *lines = mermaid(sketch, data.draw(annotations(sketch))).splitlines()
    assert first == "flowchart LR"
    nodes = [line for line in lines if NODE.fullmatch(line)]
    edges = [line for line in lines if EDGE.fullmatch(line)]
    assert len(nodes) == sum(len(lane.steps) for lane in sketch.lanes)
    assert len(edges) == sum(len(lane.edges) for lane in sketch.lanes)
    others = [line for line in lines if line not in {*nodes, *edges}]
    assert all(OTHER.fullmatch(line) for line in others)


@given(st.text())
def test_quoted_name_in_mermaid_contains_no_special_characters(name: str) -> None:
    text = quote(name)
    assert not set('"<>\n`&') & set(text)
    text.encode()


def test_mermaid_renders_stages_steps_and_edges() -> None:
    assert mermaid(SKETCH, MARKS).splitlines()[:8] == [
        "flowchart LR",
        '  subgraph s0["Thesis"]',
        "    direction LR",
        '    n0_0["a<br/>✓ Done, 3/3"]',
        '    n0_1["b<br/>· To do"]',
        "    n0_0 --> n0_1",
        "  end",
        '  subgraph s1["Antithesis"]',
    ]
    assert "  s0 ==> s1" in mermaid(SKETCH)
    assert '    n0_0["a"]' in mermaid(SKETCH)


def test_markdown_outline_renders_stages_and_steps_with_status() -> None:
    assert markdown_outline(SKETCH, MARKS) == (
        "# Rivers\n\n"
        "## Thesis — ◐ Running, 1 of 2 steps\n\n"
        "1. a — ✓ Done, 3/3\n"
        "2. b — · To do\n\n"
        "## Antithesis — · To do\n\n"
        "1. c — · To do\n"
        "2. d — ✗ Failed\n"
        "3. e — · To do; after 1, 2\n"
    )


@settings(max_examples=30)
@given(st.data())
def test_markdown_outline_has_a_list_item_for_every_step(data: st.DataObject) -> None:
    sketch = data.draw(sketches())
    lines = markdown_outline(sketch, data.draw(annotations(sketch))).splitlines()
    steps = [line for line in lines if re.match(r"\d+\. ", line)]
    assert len(steps) == sum(len(lane.steps) for lane in sketch.lanes)


@given(st.text())
def test_name_escaped_for_markdown_is_a_single_line_without_markup(name: str) -> None:
    text = escape_markdown(name)
    assert len(text.splitlines()) <= 1
    assert not re.search(r"(?<!\\)(\\\\)*[<>`*\[]", text)
    text.encode()
