"""Rows of the database, which code outside of the store reads by field name, not by position."""

import ast
from collections.abc import Iterator

import pytest

from project.repository import Module, modules

APP, STORE = "src/waybook/app/", "src/waybook/store/"

#: Methods that execute statements and return the rows of each statement.
READS = frozenset(
    {
        *("read", "write_and_read", "send", "commit", "attempt"),
        *("read_org", "read_directory", "read_global", "read_by_secret", "read_by_slug"),
    }
)
#: Kinds of values: `RESULTS` is a list with the `ROWS` of each statement, `ROWS` is a list of
#: `ROW`, and a `ROW` has the values of one database row.
RESULTS, ROWS, ROW, OTHER = 3, 2, 1, 0


class PositionalReads(ast.NodeVisitor):
    """Visitor that finds the lines in which a function reads a database row by position."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, *, named: bool) -> None:
        self.lines: list[int] = []
        self._depths: dict[str, int] = {}
        arguments = function.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            self._depths[argument.arg] = _depth_of_name(argument.arg) if named else OTHER
        for statement in function.body:
            self.visit(statement)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, self._depth(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if node.value is not None:
            self._bind(node.target, self._depth(node.value))

    def visit_For(self, node: ast.For) -> None:
        self.visit(node.iter)
        self._bind(node.target, self._depth(node.iter) - 1)
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._comprehension(node.generators, node.elt)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._comprehension(node.generators, node.elt)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self._comprehension(node.generators, node.elt)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._comprehension(node.generators, node.key, node.value)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        if self._depth(node.value) == ROW and _is_position(node.slice):
            self.lines.append(node.lineno)

    def _comprehension(self, generators: list[ast.comprehension], *made: ast.expr) -> None:
        for generator in generators:
            self.visit(generator.iter)
            self._bind(generator.target, self._depth(generator.iter) - 1)
            for condition in generator.ifs:
                self.visit(condition)
        for value in made:
            self.visit(value)

    def _bind(self, target: ast.expr, depth: int) -> None:
        depth = max(depth, OTHER)
        if isinstance(target, ast.Name):
            self._depths[target.id] = depth
        elif isinstance(target, ast.Starred):
            self._bind(target.value, depth + 1 if depth else OTHER)
        elif isinstance(target, ast.Tuple | ast.List):
            if depth == ROW:
                self.lines.append(target.lineno)
            for part in target.elts:
                self._bind(part, depth - 1)

    def _depth(self, value: ast.expr) -> int:
        match value:
            case ast.Await(value=ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name))):
                depth = RESULTS if name in READS else OTHER
            case ast.Attribute(attr="results"):
                depth = RESULTS
            case ast.Name(id=name):
                depth = self._depths.get(name, OTHER)
            case ast.Subscript(value=inner, slice=index):
                depth = self._depth(inner) - (not isinstance(index, ast.Slice))
            case ast.BoolOp(values=[first, *_]) | ast.IfExp(body=first):
                depth = self._depth(first)
            case _:
                depth = OTHER
        return max(depth, OTHER)


def _depth_of_name(name: str) -> int:
    if name == "row" or name.endswith("_row"):
        return ROW
    return ROWS if name == "rows" or name.endswith("_rows") else OTHER


def _is_position(index: ast.expr) -> bool:
    if isinstance(index, ast.UnaryOp):
        index = index.operand
    return isinstance(index, ast.Slice) or (
        isinstance(index, ast.Constant) and isinstance(index.value, int)
    )


def positional_reads(tree: ast.Module, *, named: bool) -> Iterator[int]:
    """Yield the lines that read rows by position.

    With `named`, every parameter named `row` counts as a database row.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from PositionalReads(node, named=named).lines


def reads_by_position(module: Module) -> bool:
    # Outside of the package `app`, `row` may also be the name of a row in a table on the screen.
    return any(positional_reads(module.tree, named=module.name.startswith(APP)))


def test_code_outside_store_reads_row_columns_by_name() -> None:
    outside = [module for module in modules() if not module.name.startswith(STORE)]
    assert {module.name for module in outside if reads_by_position(module)} == set()


@pytest.mark.parametrize(
    "text",
    [
        "(rows,) = await ctx.read(s)\n    return rows[0][0]",
        "((row,),) = await ctx.read(s)\n    return row[1]",
        "((a, b),), _ = await ctx.read(s, t)\n    return a",
        "(rows,) = await ctx.read(s)\n    return [a for a, b in rows]",
        "(rows,) = await ctx.read(s)\n    for a, b in rows:\n        print(a)",
        "return [row[2:] for row in rows]",
        "a, *_ = row",
        "return locked.results[0][0][1]",
        "a, b = rows[0]",
        "return rows[0][-1] if rows else 0",
    ],
)
def test_positional_read_check_reports_columns_read_by_position(text: str) -> None:
    tree = ast.parse(f"async def f(ctx, row, rows, locked):\n    {text}")
    assert any(positional_reads(tree, named=True))


@pytest.mark.parametrize(
    "text",
    [
        "(rows,) = await ctx.read(s)\n    return rows[0].id",
        "(first,), rest = await ctx.read(s, t)\n    return first.id",
        "return [row.id for row in rows[1:]]",
        'return row["id"]',
        "return rows[:5]",
    ],
)
def test_positional_read_check_accepts_columns_read_by_name(text: str) -> None:
    tree = ast.parse(f"async def f(ctx, row, rows, locked):\n    {text}")
    assert not any(positional_reads(tree, named=True))
