"""Template engine: Jinja's sandbox, with a limit on the work per rendering.

The language is a small subset of Jinja: no calls, no arithmetic, no assignments, and no inclusion
of other files. The limit counts operations, never time. Exceeding the limit is the only way in
which a checked template can fail.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isfinite
from types import MappingProxyType
from typing import cast

from jinja2 import Template, TemplateError, Undefined, UndefinedError, nodes, pass_context
from jinja2.exceptions import TemplateRuntimeError
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from waybook.conditions.values import Json
from waybook.dag.templates.filters import FILTERS, TESTS, compare, iterate, to_text
from waybook.json_values import children

_MAX_LOOP_DEPTH = 2
MAX_TREE_DEPTH = 40
MAX_NODES = 2_000

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.For,
    nodes.CondExpr,
    nodes.Name,
    nodes.Const,
    nodes.List,
    nodes.Operand,
    nodes.Compare,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Filter,
    nodes.Test,
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
            error: str | None = "the template is too large or nested too deeply"
        elif loops > _MAX_LOOP_DEPTH:
            error = f"loops may nest at most {_MAX_LOOP_DEPTH} deep"
        elif not isinstance(node, _ALLOWED):
            called = _CALLED.get(type(node), f"{type(node).__name__.lower()} (an operation)")
            error = f"{called} is not part of the template language"
        else:
            error = _error(node)
        if error is not None:
            raise TemplateRuleError(error, node.lineno)
    _check_names(tree, names)


def _walk(tree: nodes.Node) -> Iterator[tuple[nodes.Node, int, int]]:
    waiting: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    while waiting:
        node, depth, around = waiting.pop()
        loops = around + isinstance(node, nodes.For)
        yield node, depth, loops
        inside = list(node.iter_child_nodes(exclude=("target",)))
        waiting += [(child, depth + 1, loops) for child in reversed(inside)]


def targets(node: nodes.For) -> list[nodes.Node]:
    return list(node.target.items) if isinstance(node.target, nodes.Tuple) else [node.target]


def _error(node: nodes.Node) -> str | None:
    match node:
        case nodes.For() if node.recursive:
            error = "a loop cannot be recursive"
        case nodes.For() if not all(isinstance(part, nodes.Name) for part in targets(node)):
            error = "the variables of a loop must be plain names"
        case nodes.Compare(ops=[_, _, *_]):
            error = "join several comparisons with and"
        case nodes.Getitem() if not isinstance(node.arg, nodes.Const):
            error = "the index in [ ] must be a constant"
        case nodes.List() if not all(isinstance(item, nodes.Const) for item in node.items):
            error = "a list may contain only constants"
        case nodes.Const(value=float(number)) if not isfinite(number):
            error = "the number is too large"
        case nodes.Filter() | nodes.Test():
            return _call_error(node)
        case _:
            return None
    return error


def _call_error(node: nodes.Filter | nodes.Test) -> str | None:
    """Return the error in the name or the arguments of a filter or a test."""
    kind, known = ("filter", FILTERS) if isinstance(node, nodes.Filter) else ("test", TESTS)
    if node.name not in known:
        return f"there is no {kind} {node.name!r}; use: {', '.join(known)}"
    allowed = FILTERS[node.name].arguments if kind == "filter" else range(1)
    if len(node.args) in allowed and not (node.kwargs or node.dyn_args or node.dyn_kwargs):
        return None
    if kind == "test":
        return f"the test {node.name} takes no arguments"
    least, most = allowed[0], allowed[-1]
    takes = f"{least} to {most}" if least < most else str(most)
    return f"the filter {node.name} takes {takes} plain arguments"


def _check_names(tree: nodes.Template, names: frozenset[str]) -> None:
    # Jinja defines `self` in every template and does not report it as undeclared.
    unknown = (find_undeclared_variables(tree) | {"self"}) - names
    used = [node for node in tree.find_all(nodes.Name) if node.name in unknown]
    if used:
        first = min(used, key=lambda node: node.lineno)
        known = ", ".join(sorted(names))
        message = f"there is no variable {first.name!r} here; use: {known}"
        raise TemplateRuleError(message, first.lineno)


BUDGET = 200_000
_TEXT_PER_PART = 64
MAX_DATA_DEPTH = 64


class TemplateBudgetExceeded(Exception):
    """Rendering needs too many operations, its text is too long, or its data is too deep."""


class Budget:
    """The remaining budget for rendering one template.

    >>> budget = Budget()
    >>> budget.spend_for(["a", {"b": 1}])
    >>> BUDGET - budget.left
    4
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = BUDGET

    def spend(self, cost: int) -> None:
        if cost > self.left:
            raise TemplateBudgetExceeded(f"rendering takes more than {BUDGET} operations")
        self.left -= cost

    def spend_for(self, value: Json) -> None:
        level: list[Json] = [value]
        for _ in range(MAX_DATA_DEPTH):
            self.spend(sum(map(_weight_alone, level)))
            level = [inner for item in level for inner in children(item)]
            if not level:
                return
        raise TemplateBudgetExceeded(f"the data is nested more than {MAX_DATA_DEPTH} levels deep")


def _weight_alone(value: Json) -> int:
    if isinstance(value, str):
        return 1 + len(value) // _TEXT_PER_PART
    if isinstance(value, dict):
        return 1 + sum(map(len, value)) // _TEXT_PER_PART
    return 1


MAX_TEMPLATE_LENGTH = 65_536
MAX_OUTPUT_LENGTH = 1 << 20

# The names are not valid identifiers, so that templates cannot use these variables.
_BUDGET = "·budget"
_EACH = "·each"
_COMPARE = "·compare"


def render_template(template: Template, context: Mapping[str, Json]) -> str:
    """Render a template with these values.

    Raises:
        TemplateBudgetExceeded: the text would be too long, or need too many operations.
        UndefinedError: the template uses a name that is not among the values.
    """
    pieces: list[str] = []
    left = MAX_OUTPUT_LENGTH
    for piece in template.generate({**context, _BUDGET: Budget()}):
        left -= len(piece.encode(errors="replace"))
        if left < 0:
            raise TemplateBudgetExceeded(f"the result is longer than {MAX_OUTPUT_LENGTH} bytes")
        pieces.append(piece)
    return strip_unstorable("".join(pieces))


def strip_unstorable(text: str) -> str:
    """Replace NUL and lone surrogates, because they cannot be stored."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


class _MissingField(Undefined):
    """Value of a missing field. It is rendered as empty text, and so is every field below it."""

    def __init__(
        self,
        hint: str | None = None,
        obj: object = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        """Accept a missing field of a value, but raise an error for a variable that is unknown."""
        super().__init__(hint, obj, name, exc)
        if obj is missing and name is not None:
            raise UndefinedError(f"there is no variable {name!r} here")


class _DataEnvironment(ImmutableSandboxedEnvironment):
    """Jinja sandbox in which a dot or a bracket reads only from mappings and lists."""

    def getattr(self, obj: object, attribute: str) -> object:
        """Evaluate a dot: return a field of a mapping, or a property of the loop."""
        if not isinstance(obj, LoopContext):
            return self.getitem(obj, attribute)
        if attribute in {"first", "index", "index0", "last", "length"}:
            return getattr(obj, attribute)
        return self.undefined(obj=obj, name=attribute)

    def getitem(self, obj: object, argument: object) -> object:
        """Evaluate a bracket: return a field of a mapping, or an item of a list."""
        if isinstance(obj, dict) and argument in obj:
            return obj[argument]
        if isinstance(obj, list | tuple) and isinstance(argument, int) and argument < len(obj):
            return obj[argument]
        return self.undefined(obj=obj, name=str(argument))


def _value(value: object) -> Json:
    return None if isinstance(value, Undefined | LoopContext) else cast("Json", value)


def _filter(function: Callable[..., Json], *, is_deep: bool) -> Callable[..., Json]:
    @pass_context
    def paid(context: Context, *values: object) -> Json:
        arguments = [_value(value) for value in values]
        budget: Budget = context[_BUDGET]
        if is_deep:
            for argument in arguments:
                budget.spend_for(argument)
        return function(*arguments)

    return paid


@pass_context
def _each(context: Context, value: object, parts: int, cost: int) -> Iterable[Json]:
    budget: Budget = context[_BUDGET]
    items = iterate(_value(value), parts)
    budget.spend(len(items) * cost)
    return items


def _environment() -> _DataEnvironment:
    environment = _DataEnvironment(
        undefined=_MissingField,
        finalize=_filter(to_text, is_deep=True),
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
    )
    environment.globals.clear()
    environment.filters = {
        _EACH: _each,
        _COMPARE: _filter(compare, is_deep=True),
        **{name: _filter(entry.function, is_deep=entry.is_deep) for name, entry in FILTERS.items()},
    }
    environment.tests = {n: lambda value, test=f: test(_value(value)) for n, f in TESTS.items()}
    return environment


class _Metered(NodeTransformer):
    """Changes a template so that its loops and comparisons count against its limit."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - the library's name
        """Count the operations of each iteration."""
        self.generic_visit(node)
        cost = 1 + sum(1 for _ in node.find_all(nodes.Node))
        parts = nodes.Const(len(targets(node)) if isinstance(node.target, nodes.Tuple) else 0)
        node.iter = _applied(_EACH, node.iter, parts, nodes.Const(cost))
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Filter:  # noqa: N802 - as above
        """Replace the comparison with a function that accepts all types."""
        self.generic_visit(node)
        operand = node.ops[0]
        return _applied(_COMPARE, node.expr, nodes.Const(operand.op), operand.expr)


def _applied(name: str, value: nodes.Node, *arguments: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(arguments), [], None, None, lineno=value.lineno)


_ENVIRONMENT = _environment()


def compile_template(text: str, names: frozenset[str]) -> Template:
    """Compile a template that may use only these variable names.

    Raises:
        TemplateRuleError: the text is too long, is not a valid template, or violates the rules of
            the language.
    """
    if len(text) > MAX_TEMPLATE_LENGTH:
        raise TemplateRuleError(f"the template has more than {MAX_TEMPLATE_LENGTH} characters", 1)
    try:
        tree = _ENVIRONMENT.parse(text)
        check(tree, names)
        metered = _Metered().visit(tree).set_environment(_ENVIRONMENT)
        return _ENVIRONMENT.from_string(metered)
    except TemplateError as error:
        line = getattr(error, "lineno", None) or 1
        raise TemplateRuleError(error.message or "it is not a template", line) from error
    except (RecursionError, ValueError, SyntaxError, MemoryError) as error:
        raise TemplateRuleError("the template is too large or nested too deeply", 1) from error
