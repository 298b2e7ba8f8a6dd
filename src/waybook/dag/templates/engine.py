"""Template engine: Jinja's sandbox, with a limit on the work per rendering.

The limit counts operations, never time. A checked template fails only if it exceeds the limit.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from jinja2 import Template, TemplateError, Undefined, UndefinedError, nodes, pass_context
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from waybook.conditions.values import Json
from waybook.dag.templates import filters
from waybook.dag.templates.json_markdown import to_text
from waybook.dag.templates.language import TemplateRuleError, check, targets

BUDGET = 200_000
TEXT_PER_PART = 64
MAX_DATA_DEPTH = 64


class TemplateBudgetExceeded(Exception):
    """The budget of a rendering is spent, or the data is nested too deeply."""


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
            level = [inner for item in level for inner in _inside(item)]
            if not level:
                return
        raise TemplateBudgetExceeded(f"the data is nested more than {MAX_DATA_DEPTH} levels deep")


def _weight_alone(value: Json) -> int:
    if isinstance(value, str):
        return 1 + len(value) // TEXT_PER_PART
    if isinstance(value, dict):
        return 1 + sum(map(len, value)) // TEXT_PER_PART
    return 1


def _inside(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


MAX_TEMPLATE_LENGTH = 65_536
MAX_OUTPUT_LENGTH = 1 << 20

# The names are not valid identifiers, so that templates cannot use these variables.
_BUDGET = "·budget"
_EACH = "·each"
_COMPARE = "·compare"


def render_template(template: Template, context: Mapping[str, Json]) -> str:
    """Render a template with these values.

    Raises:
        TemplateBudgetExceeded: the text would be too long, or cost too much.
        UndefinedError: the template uses a name that is not among the values.
    """
    pieces: list[str] = []
    left = MAX_OUTPUT_LENGTH
    for piece in template.generate({**context, _BUDGET: Budget()}):
        left -= len(piece.encode(errors="replace"))
        if left < 0:
            raise TemplateBudgetExceeded(f"the text is longer than {MAX_OUTPUT_LENGTH} bytes")
        pieces.append(piece)
    return strip_unstorable("".join(pieces))


def strip_unstorable(text: str) -> str:
    """Replace NUL and lone surrogates, because they cannot be stored."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


class MissingField(Undefined):
    """A missing field. It is empty, and so is every field below it."""

    def __init__(
        self,
        hint: str | None = None,
        obj: object = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        """Raise an error for an unknown top-level name."""
        super().__init__(hint, obj, name, exc)
        if obj is missing and name is not None:
            raise UndefinedError(f"there is no variable {name!r} here")


class DataEnvironment(ImmutableSandboxedEnvironment):
    """Jinja sandbox in which a dot or a bracket reads only from mappings and lists."""

    def getattr(self, obj: object, attribute: str) -> object:
        """Evaluate a dot: return a field of a mapping, or a property of the loop."""
        if isinstance(obj, LoopContext):
            is_exposed = attribute in {"first", "index", "index0", "last", "length"}
            return (
                getattr(obj, attribute) if is_exposed else self.undefined(obj=obj, name=attribute)
            )
        return self.getitem(obj, attribute)

    def getitem(self, obj: object, argument: object) -> object:
        """Evaluate a bracket: return a field of a mapping, or an item of a list."""
        if isinstance(obj, dict) and argument in obj:
            return obj[argument]
        if isinstance(obj, list | tuple) and isinstance(argument, int) and argument < len(obj):
            return obj[argument]
        return self.undefined(obj=obj, name=str(argument))


def _value(value: object) -> Json:
    return None if isinstance(value, Undefined | LoopContext) else cast("Json", value)


def _filter(function: Callable[..., Json], *, thorough: bool) -> Callable[..., Json]:
    @pass_context
    def paid(context: Context, *values: object) -> Json:
        arguments = [_value(value) for value in values]
        budget: Budget = context[_BUDGET]
        if thorough:
            for argument in arguments:
                budget.spend_for(argument)
        return function(*arguments)

    return paid


@pass_context
def _each(context: Context, value: object, parts: int, cost: int) -> Iterable[Json]:
    budget: Budget = context[_BUDGET]
    items = filters.iterate(_value(value), parts)
    budget.spend(len(items) * cost)
    return items


@pass_context
def _finalize(context: Context, value: object) -> str:
    plain = _value(value)
    budget: Budget = context[_BUDGET]
    budget.spend_for(plain)
    return to_text(plain)


def _environment() -> DataEnvironment:
    environment = DataEnvironment(
        undefined=MissingField,
        finalize=_finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
    )
    environment.globals.clear()
    environment.filters = {
        _EACH: _each,
        _COMPARE: _filter(filters.compare, thorough=True),
        **{n: _filter(f, thorough=True) for n, f in filters.DEEP_FILTERS.items()},
        **{n: _filter(f, thorough=False) for n, f in filters.SHALLOW_FILTERS.items()},
    }
    environment.tests = {
        n: lambda value, test=f: test(_value(value)) for n, f in filters.TESTS.items()
    }
    return environment


class _Metered(NodeTransformer):
    """Makes loops and comparisons count against the limit of a template."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802 - the library's name
        """Count the operations of each iteration."""
        self.generic_visit(node)
        cost = 1 + sum(1 for _ in node.find_all(nodes.Node))
        parts = nodes.Const(len(targets(node)) if isinstance(node.target, nodes.Tuple) else 0)
        node.iter = _applied(_EACH, node.iter, parts, nodes.Const(cost))
        return node

    def visit_Compare(self, node: nodes.Compare) -> nodes.Filter:  # noqa: N802 - as above
        """Replace the comparison by a function that accepts all types."""
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
        raise TemplateRuleError(f"a template has at most {MAX_TEMPLATE_LENGTH} characters", 1)
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
