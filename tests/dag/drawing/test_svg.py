"""SVG maps: valid for any text, without external content, and readable without colors."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagrams import annotations, dense_diagram, make_chain_of, make_diagram, make_lane, sketches
from waybook.core.shown import LOOKS, NO_STATUS, TO_DO, Shown
from waybook.dag.diagram.model import Diagram, DiagramStep, Lane, text_width
from waybook.dag.diagram.routing import compute_layout
from waybook.dag.diagram.status_marks import Annotation, Annotations
from waybook.dag.diagram.svg import render_svg, style_sheet

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    *('"/><script>alert(1)</script>', "]]><!--", "a & b < c > d", "\x00\x0b\x1f\ud800\uffff"),
    *("' onload='x", "\u202e\u0301" * 50, "W" * 1000, " \n\t ", ""),
]
ALLOWED = {*("svg", "title", "style", "g", "a", "rect", "path", "text")}
#: Attributes that a drawing may contain: none of them can execute code or load anything.
ATTRIBUTES = {
    *("viewBox", "width", "height", "class", "role", "aria-label", "x", "y", "rx", "d"),
    *("data-step", "data-steps", "data-status", "data-stage", "transform", "text-anchor", "href"),
}
#: Statuses that a step or stage can have on a map.
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)  # noqa: S314 - we wrote it


def plain(element: ET.Element) -> str:
    return element.tag.removeprefix(SVG)


def check_harmless(svg: str) -> None:
    root = parsed(svg)
    assert {plain(element) for element in root.iter()} <= ALLOWED
    assert {name for element in root.iter() for name in element.attrib} <= ATTRIBUTES
    assert "url(" not in svg
    assert "http" not in svg.replace('xmlns="http://www.w3.org/2000/svg"', "", 1)


@settings(max_examples=60)
@given(st.data())
def test_svg_of_any_diagram_has_only_allowed_elements_and_attributes(data: st.DataObject) -> None:
    sketch = data.draw(sketches())
    marks = data.draw(annotations(sketch))
    layout = compute_layout(sketch, stack_from=data.draw(st.sampled_from([2, 9])))
    svg = render_svg(layout, marks, styled=data.draw(st.booleans()))
    check_harmless(svg)
    root = parsed(svg)
    assert root.attrib["viewBox"].split()[2:] == [root.attrib["width"], root.attrib["height"]]
    assert len(steps_in(root)) == len(layout.boxes)


@settings(max_examples=100)
@given(NAMES, NAMES, NAMES)
def test_svg_escapes_any_name(name: str, key: str, note: str) -> None:
    lane = Lane(slug=key, name=name, steps=(DiagramStep(key, name),))
    marks = Annotations(
        steps={(key, key): Annotation(note, note)},
        stages={key: Annotation(key, note)},
        captions={key: name},
    )
    sketch = Diagram(name=name, lanes=(lane, Lane(slug=f"{key}-", name="", steps=())))
    svg = render_svg(
        compute_layout(sketch), marks, address=lambda stage, step: f"/{len(stage)}/{len(step)}"
    )
    check_harmless(svg)
    svg.encode()


def steps_in(root: ET.Element) -> list[ET.Element]:
    return [element for element in root.iter() if element.get("class") == "step"]


@pytest.mark.parametrize("status", Shown)
def test_svg_shows_every_state_as_icon_and_word(status: Shown) -> None:
    sketch = make_chain_of(1)
    root = parsed(
        render_svg(
            compute_layout(sketch),
            Annotations(steps={("plan", "step-1"): Annotation(status, "3/9")}),
        )
    )
    (step,) = steps_in(root)
    assert step.attrib["data-status"] == status
    assert [element.text for element in step.iter(f"{SVG}text")] == [
        "step-1",
        LOOKS[status].word,
        "3/9",
    ]
    (icon,) = [element for element in step if element.get("class") == "icon"]
    assert icon.attrib["d"].endswith(LOOKS[status].icon)
    assert step[0].text == f"step-1: {LOOKS[status].word}, 3/9"


def test_symbols_of_states_are_distinct_except_those_to_do() -> None:
    looks = [look for state, look in LOOKS.items() if state not in TO_DO - {Shown.TODO}]
    assert set(Counter(look.icon for look in looks).values()) == {1}
    assert set(Counter(look.symbol for look in looks).values()) == {1}
    assert {LOOKS[state].icon for state in TO_DO} == {LOOKS[Shown.TODO].icon}


def test_svg_style_sheet_has_a_color_rule_for_every_status() -> None:
    style = style_sheet()
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    for part in (light, dark):
        colored = set(re.findall(r"\[data-status=(\w+)\]\{color:", part))
        assert colored == {*Shown} - TO_DO - {Shown.CANCELED, Shown.UNKNOWN}
        assert "[data-status]{color:" in part
    assert len(style.encode()) < 4_000
    assert "/*" not in style


def test_svg_map_of_400_steps_has_legend_with_status_counts() -> None:
    sketch = dense_diagram(400)
    marks = Annotations(steps={("plan", "step-0003"): Annotation("failed")})
    root = parsed(render_svg(compute_layout(sketch), marks))
    (legend,) = [element for element in root if element.get("class") == "legend"]
    assert [element.text for element in legend.iter(f"{SVG}text")] == [
        "1 failed",
        "399 to do",
    ]


def test_svg_box_of_several_steps_shows_share_of_each_status() -> None:
    keys = [f"w{number}" for number in range(10)]
    sketch = make_diagram(make_lane(["a", *keys], [("a", key) for key in keys]))
    statuses = ["completed"] * 5 + ["in_progress"] * 2
    annotations = {
        ("plan", key): Annotation(status) for key, status in zip(keys, statuses, strict=False)
    }
    root = parsed(render_svg(compute_layout(sketch), Annotations(steps=annotations)))
    stack = steps_in(root)[1]
    assert (stack.attrib["data-steps"], stack.attrib["data-status"]) == ("10", "in_progress")
    assert stack[0].text == "10 \N{MULTIPLICATION SIGN} w0: Running, 5/10"
    parts = {
        p.attrib["data-status"]: int(p.attrib["width"])
        for p in stack.iter(f"{SVG}rect")
        if p.get("class") == "part"
    }
    assert list(parts) == ["completed", "in_progress", "pending"]
    assert parts["completed"] == 84


def test_svg_of_a_map_without_progress_shows_no_status() -> None:
    lanes = make_lane("abc", [("a", "b")], slug="one"), make_lane("d", slug="two")
    root = parsed(render_svg(compute_layout(make_diagram(*lanes))))
    assert {element.get("data-status") for element in root.iter()} <= {None, "bare", "pending"}
    assert [element for element in root.iter(f"{SVG}path") if element.get("class") == "icon"] == []
    assert [element for element in root.iter(f"{SVG}text") if element.get("class") == "word"] == []
    assert {element.text for element in root.iter(f"{SVG}title")} >= set("abcd")


def test_accessible_label_of_svg_contains_step_counts_by_status() -> None:
    marks = Annotations(
        steps={
            ("plan", "step-1"): Annotation("completed"),
            ("plan", "step-2"): Annotation("failed"),
        }
    )
    root = parsed(render_svg(compute_layout(make_chain_of(3)), marks))
    label = "Rivers: 1 of 3 steps done, 1 failed, 1 to do"
    assert (root.attrib["role"], root.attrib["aria-label"], root[0].text) == ("img", label, label)
    assert (
        parsed(render_svg(compute_layout(make_chain_of(3)))).attrib["aria-label"]
        == "Rivers: 3 steps"
    )


def test_svg_links_only_the_steps_that_have_an_address() -> None:
    sketch = make_chain_of(2)
    svg = render_svg(
        compute_layout(sketch), address=lambda stage, key: f"/{stage}?a&b" if "1" in key else None
    )
    root = parsed(svg)
    assert [link.attrib["href"] for link in root.iter(f"{SVG}a")] == ["/plan?a&b"]
    assert root.attrib["role"] == "group"


def test_svg_contains_a_style_element_only_with_argument_styled() -> None:
    layout = compute_layout(make_chain_of(1))
    assert "<style>" not in render_svg(layout)
    assert render_svg(layout, styled=True).count("<style>") == 1
    assert "style=" not in render_svg(layout, styled=True)


@given(NAMES, st.sampled_from([*Shown, NO_STATUS]), NAMES)
def test_svg_stage_headings_fit_the_frame_of_the_stage(name: str, status: str, note: str) -> None:
    layout = compute_layout(make_diagram(make_lane("a", slug="x", name=name or "x")))
    marks = Annotations(stages={"x": Annotation(status, note)})
    root = parsed(render_svg(layout, marks))
    (frame,) = layout.frames
    (stage,) = [element for element in root if element.get("class") == "stage"]
    for element in stage.findall(f"{SVG}text"):
        right = int(element.attrib["x"]) + text_width(element.text or "", 11)
        assert right <= frame.x + frame.width


@settings(max_examples=100)
@given(st.lists(NAMES, min_size=1, max_size=5))
def test_svg_step_names_fit_the_box_of_the_step(names: list[str]) -> None:
    steps = tuple(DiagramStep(str(number), name) for number, name in enumerate(names))
    sketch = make_diagram(Lane(slug="plan", name="", steps=steps))
    layout = compute_layout(sketch)
    for step in steps_in(parsed(render_svg(layout))):
        for line in step.iter(f"{SVG}text"):
            assert text_width(line.text or "", 12) <= layout.measures.name_width
