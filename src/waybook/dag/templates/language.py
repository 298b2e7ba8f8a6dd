"""The template language: a small subset of Jinja.

It has no calls, no arithmetic, no assignments, and no inclusion of other files.
"""

from collections.abc import Iterator, Mapping
from math import isfinite
from types import MappingProxyType

from jinja2 import nodes
from jinja2.meta import find_undeclared_variables

MAX_LOOP_DEPTH = 2
MAX_TREE_DEPTH = 40
MAX_NODES = 2_000

FILTERS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "cell": (0, 0),
        "default": (1, 1),
        "first": (0, 0),
        "heading": (0, 1),
        "items": (0, 0),
        "join": (0, 2),
        "last": (0, 0),
        "length": (0, 0),
        "lower": (0, 0),
        "markdown": (0, 1),
        "title": (0, 0),
        "tojson": (0, 0),
        "trim": (0, 0),
        "upper": (0, 0),
    }
)
TESTS = ("defined", "list", "mapping", "none", "number", "string")

_PLAIN = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.CondExpr,
    nodes.Name,
    nodes.Operand,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Getattr,
)
_CALLED: Mapping[type[nodes.Node], str] = MappingProxyType(
    {
        nodes.Assign: "set",
        nodes.AssignBlock: "set",
        nodes.Block: "block",
        nodes.Call: "a call",
        nodes.CallBlock: "call",
        nodes.Dict: "a dictionary",
        nodes.Extends: "extends",
        nodes.FilterBlock: "a filter block",
        nodes.FromImport: "import",
        nodes.Import: "import",
        nodes.Include: "include",
        nodes.Macro: "macro",
        nodes.Tuple: "a tuple",
        nodes.With: "with",
    }
)


class TemplateRuleError(Exception):
    """A template violates the rules of the language."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")


def check(tree: nodes.Template, names: frozenset[str]) -> None:
    for count, (node, depth, loops) in enumerate(_walk(tree)):
        if depth > MAX_TREE_DEPTH or count >= MAX_NODES:
            raise TemplateRuleError("the template is too large or nested too deeply", node.lineno)
        if loops > MAX_LOOP_DEPTH:
            raise TemplateRuleError(f"loops may nest at most {MAX_LOOP_DEPTH} deep", node.lineno)
        _check_node(node)
    _check_names(tree, names)


def _walk(tree: nodes.Node) -> Iterator[tuple[nodes.Node, int, int]]:
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, around = waiting.pop()
        loops = around + isinstance(node, nodes.For)
        yield node, depth, loops
        inside = list(node.iter_child_nodes(exclude=("target",)))
        waiting += [(child, depth + 1, loops) for child in reversed(inside)]


def _check_node(node: nodes.Node) -> None:
    match node:
        case nodes.For():
            _check_loop(node)
        case nodes.Filter():
            _check_filter(node)
        case nodes.Test():
            _check_test(node)
        case nodes.Compare() | nodes.Getitem() | nodes.List() | nodes.Const():
            _check_form(node)
        case _ if not isinstance(node, _PLAIN):
            called = _CALLED.get(type(node), f"{type(node).__name__.lower()} (an operation)")
            raise TemplateRuleError(f"{called} is not part of the template language", node.lineno)


def _check_form(node: nodes.Compare | nodes.Getitem | nodes.List | nodes.Const) -> None:
    match node:
        case nodes.Compare(ops=[_, _, *_]):
            raise TemplateRuleError("join several comparisons with and", node.lineno)
        case nodes.Getitem() if not isinstance(node.arg, nodes.Const):
            raise TemplateRuleError("the index in [ ] must be a constant", node.lineno)
        case nodes.List() if not all(isinstance(item, nodes.Const) for item in node.items):
            raise TemplateRuleError("a list may contain only constants", node.lineno)
        case nodes.Const(value=float(number)) if not isfinite(number):
            raise TemplateRuleError("the number is too large", node.lineno)


def _check_loop(node: nodes.For) -> None:
    if node.recursive:
        raise TemplateRuleError("a loop cannot be recursive", node.lineno)
    if not all(isinstance(target, nodes.Name) for target in targets(node)):
        raise TemplateRuleError("the variables of a loop must be plain names", node.lineno)


def targets(node: nodes.For) -> list[nodes.Node]:
    return list(node.target.items) if isinstance(node.target, nodes.Tuple) else [node.target]


def _check_filter(node: nodes.Filter) -> None:
    if node.name not in FILTERS:
        known = ", ".join(FILTERS)
        raise TemplateRuleError(f"there is no filter {node.name!r}; use: {known}", node.lineno)
    least, most = FILTERS[node.name]
    named = bool(node.kwargs or node.dyn_args or node.dyn_kwargs)
    if named or not least <= len(node.args) <= most:
        takes = f"{least} to {most}" if least < most else str(most)
        message = f"the filter {node.name} takes {takes} plain arguments"
        raise TemplateRuleError(message, node.lineno)


def _check_test(node: nodes.Test) -> None:
    if node.name not in TESTS:
        known = ", ".join(TESTS)
        raise TemplateRuleError(f"there is no test {node.name!r}; use: {known}", node.lineno)
    if node.args or node.kwargs or node.dyn_args or node.dyn_kwargs:
        raise TemplateRuleError(f"the test {node.name} takes no arguments", node.lineno)


def _check_names(tree: nodes.Template, names: frozenset[str]) -> None:
    # Jinja defines `self` in every template and does not report it.
    unknown = (find_undeclared_variables(tree) | {"self"}) - names
    used = [node for node in tree.find_all(nodes.Name) if node.name in unknown]
    if used:
        first = min(used, key=lambda node: node.lineno)
        known = ", ".join(sorted(names))
        message = f"there is no variable {first.name!r} here; use: {known}"
        raise TemplateRuleError(message, first.lineno)
