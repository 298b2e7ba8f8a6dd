import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from any_json import any_json
from waybook.conditions.values import Json
from waybook.dag.templates.engine import (
    BUDGET,
    MAX_DATA_DEPTH,
    MAX_NODES,
    MAX_OUTPUT_LENGTH,
    MAX_TEMPLATE_LENGTH,
    MAX_TREE_DEPTH,
)
from waybook.dag.templates.filters import FILTERS, TESTS
from waybook.dag.templates.template import (
    DEFAULT_DOCUMENT,
    SAMPLE_CONTEXTS,
    TemplateKind,
    render_template,
    template_error,
)
from waybook.errors import BadRecipe, TooLarge

each_kind = pytest.mark.parametrize("kind", TemplateKind)


def rendered(template: str, **values: Json) -> str:
    return render_template(
        template, TemplateKind.DOCUMENT, {**SAMPLE_CONTEXTS[TemplateKind.DOCUMENT], **values}
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain { text } # ## -- %", "plain { text } # ## -- %"),
        ("{{ run.name }}, {{ run['name'] }}", "Sample, Sample"),
        ("{# a note #}{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ("{% if text %}a{% elif content %}b{% else %}c{% endif %}", "a"),
        ("{{ 'a' if content.nope else 'b' }}{{ 'c' if content.nope }}", "b"),
        ("{% for item in content.list %}{{ item }}{% else %}none{% endfor %}", "12"),
        ("{% for item in content.nope %}{{ item }}{% else %}none{% endfor %}", "none"),
        ("{% for n in content.list if n > 1 %}{{ n }}{% endfor %}", "2"),
        ("{% for n in content.list %}{{ n }}{{ '' if loop.last else '-' }}{% endfor %}", "1-2"),
        ("{% for n in content.list %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        ("{% for key, value in content.map %}{{ key }}={{ value }} {% endfor %}", "a=1 b=2 "),
        ("{% for key in content.map %}{{ key }} {% endfor %}", "a b "),
        ("{% for a, b in content.pairs %}{{ a }}{{ b }} {% endfor %}", "xy z "),
        ("{% for one in content.word %}{{ one }}{% endfor %}", "word"),
        ("{{ content.list[0] }}{{ content.list[7] }}{{ content.list.nope }}", "1"),
        ("{{ content.word == 'word' and not content.word in ['x', 'y'] }}", "true"),
        ("{{ content.word is string and content.nope is not defined }}", "true"),
        ("{{ content.list }} {{ content.map }} {{ none }}", '[1, 2] {"a": 1, "b": 2} '),
        ("{{ content.nope.deeper.still }}{{ content.word.nope }}", ""),
    ],
)
def test_template_renders_all_supported_syntax(template: str, expected: str) -> None:
    content: Json = {
        "list": [1, 2],
        "map": {"a": 1, "b": 2},
        "pairs": [["x", "y"], "z"],
        "word": "word",
    }
    assert template_error(template, TemplateKind.DOCUMENT) is None
    assert rendered(template, content=content) == expected


def test_template_blocks_on_separate_lines_leave_no_blank_lines() -> None:
    template = "a\n  {% if text %}\nb\n  {% endif %}\nc"
    assert rendered(template) == "a\nb\nc"


def test_unsupported_fields_of_a_template_loop_render_as_empty() -> None:
    template = "{% for n in content %}{{ loop }}{{ loop.cycle }}{{ loop.index0 }}{% endfor %}"
    assert rendered(template, content=["a", "b"]) == "01"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a\n{{ run.name.upper() }}", "line 2: a call is"),
        ("{{ range(3) }}", "line 1: a call is"),
        ("{% set a = 1 %}", "line 1: set is"),
        ("{% set a %}b{% endset %}", "line 1: set is"),
        ("{% macro m() %}{% endmacro %}", "line 1: macro is"),
        ("{% import 'a' as b %}", "line 1: import is"),
        ("{% from 'a' import b %}", "line 1: import is"),
        ("{% include 'a' %}", "line 1: include is"),
        ("{% extends 'a' %}", "line 1: extends is"),
        ("{% block a %}{% endblock %}", "line 1: block is"),
        ("{% with a = 1 %}{% endwith %}", "line 1: with is"),
        ("{% filter upper %}a{% endfilter %}", "line 1: a filter block is"),
        ("{{ 'a' * 9 }}", "line 1: mul (an operation) is"),
        ("{{ 9 ** 9 }}", "line 1: pow (an operation) is"),
        ("{{ 1 + 1 }}", "line 1: add (an operation) is"),
        ("{{ {'a': 1} }}", "line 1: a dictionary is"),
        ("{{ (1, 2) }}", "line 1: a tuple is"),
        ("{{ run.name[0:2] }}", "line 1: the index in [ ] must be a constant"),
        ("{{ run[step] }}", "line 1: the index in [ ] must be a constant"),
        ("{{ [run] }}", "line 1: a list may contain only constants"),
        ("{{ 1 < 2 < 3 }}", "line 1: join several comparisons"),
        ("{{ 1e999 }}", "line 1: the number is too large"),
        ("{{ run|attr('name') }}", "line 1: there is no filter 'attr'; use: cell, default"),
        ("{{ run|default }}", "line 1: the filter default takes 1 plain arguments"),
        ("{{ run|join(1, 2, 3) }}", "line 1: the filter join takes 0 to 2 plain arguments"),
        ("{{ run|join(d='') }}", "line 1: the filter join takes 0 to 2 plain arguments"),
        ("{{ run is callable }}", "line 1: there is no test 'callable'; use: defined"),
        ("{{ run is none('a') }}", "line 1: the test none takes no arguments"),
        ("{% for a in run recursive %}{% endfor %}", "line 1: a loop cannot be recursive"),
        ("{% for a.b in run %}{% endfor %}", "line 1: "),
        ("{% for (a, b), c in run %}{% endfor %}", "line 1: the variables of a loop"),
        ("{% for loop in run %}{% endfor %}", "line 1: Can't assign to special loop variable"),
        ("{{ loop.index }}", "line 1: there is no variable 'loop' here"),
        ("{{ self }}", "line 1: there is no variable 'self' here"),
        ("\n\n{{ runn }}", "line 3: there is no variable 'runn' here; use: "),
        ("{% if run", "line 1: unexpected end of template"),
        ("{{ }}", "line 1: Expected an expression"),
        ("{% nonsense %}", "line 1: Encountered unknown tag"),
    ],
)
def test_template_check_reports_forbidden_syntax_with_the_line(
    template: str, expected: str
) -> None:
    for kind in TemplateKind:
        assert (template_error(template, kind) or "").startswith(expected)


def test_prompt_and_document_templates_have_different_variables() -> None:
    assert template_error("{{ feedback }}{{ models }}{{ reviewer }}", TemplateKind.PROMPT) is None
    assert (
        template_error("{{ content }}{{ text }}{{ document.title }}", TemplateKind.DOCUMENT) is None
    )
    message = "line 1: there is no variable 'content' here"
    assert (template_error("{{ content }}", TemplateKind.PROMPT) or "").startswith(message)


def test_template_loops_nested_deeper_than_two_are_refused() -> None:
    def loops(depth: int) -> str:
        return "{% for a in run %}" * depth + "{% endfor %}" * depth

    assert template_error(loops(2) + loops(2), TemplateKind.PROMPT) is None
    assert template_error(loops(3), TemplateKind.PROMPT) == "line 1: loops may nest at most 2 deep"


@pytest.mark.parametrize(
    "template",
    [
        "x" * (MAX_TEMPLATE_LENGTH + 1),
        "{{ run }}" * MAX_NODES,
        "{{ " + "(" * 50_000,
        "{{ " + "not " * 10_000 + "run }}",
        "{% if run %}" * 5_000,
        "{{ run" + ".a" * MAX_TREE_DEPTH + " }}",
        "{{ 1" + "0" * 5_000 + " }}",
    ],
)
def test_template_beyond_size_or_depth_limit_is_refused(template: str) -> None:
    assert "line 1: " in (template_error(template, TemplateKind.PROMPT) or "")


@pytest.mark.parametrize(
    "path", ["__class__", "items", "keys", "_private", "__class__.__mro__", "get.__globals__"]
)
def test_template_field_never_resolves_to_python_attribute(path: str) -> None:
    assert rendered(f"[{{{{ content.{path} }}}}]", content={"a": 1}) == "[]"
    assert rendered(f"[{{{{ text.{path} }}}}]", text="abc") == "[]"


def test_template_field_named_like_a_python_method_returns_the_data() -> None:
    assert rendered("{{ content.items }}", content={"items": 3}) == "3"


def test_value_inserted_by_a_template_is_not_rendered_again() -> None:
    assert rendered("{{ text }}", text="{{ run }}{% if %}") == "{{ run }}{% if %}"


def test_prompt_with_an_unknown_variable_raises_bad_recipe() -> None:
    with pytest.raises(BadRecipe, match="there is no variable 'model' here") as refusal:
        render_template("{{ model }}", TemplateKind.PROMPT, {})
    assert refusal.value.details["fault"] == "template"


def test_prompt_with_invalid_template_syntax_raises_bad_recipe() -> None:
    with pytest.raises(BadRecipe, match=r"the prompt template: line 1: a call"):
        render_template("{{ run() }}", TemplateKind.PROMPT, SAMPLE_CONTEXTS[TemplateKind.PROMPT])


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in content %}{% for b in content %}{% endfor %}{% endfor %}",
        "{% for a in content %}{% if content == content %}{% endif %}{% endfor %}",
        "{% for a in content %}{% if a in content %}{% endif %}{% endfor %}",
        "{% for a in content %}{% if content|tojson == '' %}{% endif %}{% endfor %}",
        "{% for a in content %}{% if content|items %}{% endif %}{% endfor %}",
        "{% for a in content %}{% if text|upper == '' %}{% endif %}{% endfor %}",
        "{% for a in content %}" + "{{ a }}" * 100 + "{% endfor %}",
    ],
)
def test_template_exceeding_the_operation_limit_raises_too_large(template: str) -> None:
    assert template_error(template, TemplateKind.DOCUMENT) is None
    content: Json = list(range(BUDGET // 40))
    with pytest.raises(TooLarge, match="operations"):
        rendered(template, content=content, text="x" * 500_000)


@pytest.mark.parametrize("piece", ["x" * 1_000, "é" * 500])
def test_template_output_over_byte_limit_raises_too_large(piece: str) -> None:
    template = "{% for a in content %}{{ text }}{% endfor %}"
    kilobytes = MAX_OUTPUT_LENGTH // 1_000
    assert (
        len(rendered(template, content=[1] * kilobytes, text=piece).encode()) <= MAX_OUTPUT_LENGTH
    )
    with pytest.raises(TooLarge, match="longer than 1048576 bytes"):
        rendered(template, content=[1] * (kilobytes + 1), text=piece)


def test_template_data_beyond_max_depth_raises_too_large() -> None:
    deep: Json = "bottom"
    for _ in range(MAX_DATA_DEPTH - 1):
        deep = [deep]
    assert "bottom" in rendered("{{ content }}", content=deep)
    with pytest.raises(TooLarge, match="nested more than 64 levels"):
        rendered("{{ content|tojson }}", content=[deep])
    assert rendered("{{ content|length }}", content=[deep]) == "1"


def test_template_output_replaces_nul_and_lone_surrogate() -> None:
    assert rendered("{{ text }}", text="a\0b\ud800c") == "a\ufffdb?c"


JSON = any_json("a", "b", "items", "title")
WORDS = st.sampled_from(["content", "text", "run.a", "content.a", "content.items[0]", "'x'", "3"])
FILTER_USES = st.sampled_from(
    [f"|{name}" for name, entry in FILTERS.items() if 0 in entry.arguments]
    + ["|default('-')", "|default(content.b)", "|join(', ')", "|join('-', 'a')", "|heading(9)"]
    + ["|heading(content)", "|markdown(text)", "|join(content, content)"]
)
TEST_USES = st.sampled_from(["", *(f" is {name}" for name in TESTS)])
EXPRESSIONS = st.recursive(
    st.builds("({}{}{}{})".format, WORDS, FILTER_USES, FILTER_USES, TEST_USES),
    lambda inner: st.builds(
        "({} {} {})".format,
        inner,
        st.sampled_from(["==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]),
        inner,
    ),
    max_leaves=4,
)
PARTS = st.recursive(
    EXPRESSIONS.map("{{{{ {} }}}}".format) | st.sampled_from(["text ", "\n", "# ", "| "]),
    lambda inner: (
        st.builds("{{% if {} %}}{}{{% endif %}}".format, EXPRESSIONS, inner)
        | st.builds("{}{}".format, inner, inner)
    ),
    max_leaves=4,
)
TEMPLATES = st.builds(
    lambda over, names, part: f"{{% for {names} in {over} %}}{part}{{% endfor %}}",
    EXPRESSIONS,
    st.sampled_from(["a", "a, b", "content"]),
    PARTS,
)


@settings(max_examples=75, deadline=None)
@given(template=TEMPLATES, content=JSON, text=st.text(max_size=20))
def test_template_without_errors_renders_any_data(template: str, content: Json, text: str) -> None:
    assert template_error(template, TemplateKind.DOCUMENT) is None
    rendered(template, content=content, text=text)


SCRAPS = ["{{", "}}", "{%", "%}", "{#", "for ", " in ", "if ", "endif", "endfor", "run", ".", "("]
SCRAPS += [
    *(")", "[", "]", "|", "join", " ", "\n", "-", "'", '"', "\\", "1", "e", "=", "~", ","),
    "#}",
]


@given(st.lists(st.sampled_from(SCRAPS) | st.characters(), max_size=25).map("".join))
@example("{{ '\\ud800' }}")
@example("\ud800{{ run }}")
@example("{{ run }}\0")
def test_any_prompt_template_renders_or_is_refused_with_line_number(text: str) -> None:
    message = template_error(text, TemplateKind.PROMPT)
    if message is None:
        render_template(text, TemplateKind.PROMPT, SAMPLE_CONTEXTS[TemplateKind.PROMPT])
    else:
        assert message.startswith("line ")
        with pytest.raises(BadRecipe):
            render_template(text, TemplateKind.PROMPT, SAMPLE_CONTEXTS[TemplateKind.PROMPT])


@each_kind
def test_templates_may_use_every_variable_of_the_sample_data(kind: TemplateKind) -> None:
    for name in SAMPLE_CONTEXTS[kind]:
        assert template_error(f"{{{{ {name} }}}}", kind) is None


def test_default_template_shows_text_unchanged_and_json_as_markdown() -> None:
    assert rendered(DEFAULT_DOCUMENT, content="# As *it* is") == "# As *it* is"
    assert rendered(DEFAULT_DOCUMENT, content={"a": 1}) == "- **A:** 1"
