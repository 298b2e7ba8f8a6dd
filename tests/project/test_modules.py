"""Source modules are small and well named, and each has a docstring."""

import ast
from collections import Counter
from collections.abc import Iterator

import waybook
from project.repository import Module, modules

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_MODULES_PER_FOLDER = 30

#: Module names that do not describe the content of the module.
NAMELESS = {"base", "common", "helpers", "manager", "misc", "shared", "types", "util", "utils"}

#: Public names of `import waybook`. Adding a name requires a deliberate decision.
PUBLIC = [
    "Client",
    "PlanStatus",
    "StepStatus",
    "WaybookError",
    "can_move_plan",
    "can_move_step",
    "compile_condition",
    "derive_plan_status",
    "detect_stalled_steps",
    "is_plan_stalled",
    "move_plan",
    "move_step",
    "replay",
]

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_every_module_is_within_the_line_limit() -> None:
    lengths = {module.name: len(module.text.splitlines()) for module in modules()}
    assert {name for name, lines in lengths.items() if lines > MAX_MODULE_LINES} == set()


def test_every_folder_is_within_the_limit_of_modules() -> None:
    counts = Counter(module.path.parent for module in modules())
    assert {path for path, count in counts.items() if count > MAX_MODULES_PER_FOLDER} == set()


def test_every_function_is_within_the_line_limit() -> None:
    violations = {
        f"{module.name}: {function.name}"
        for module in modules()
        for function in functions(module.tree)
        if length(function) > MAX_FUNCTION_LINES
    }
    assert violations == set()


def test_module_names_contain_no_generic_words() -> None:
    names = {module.name: {*module.path.parts, module.path.stem} for module in modules()}
    assert {name for name, parts in names.items() if parts & NAMELESS} == set()


def test_module_docstring_starts_with_full_sentence() -> None:
    opened = {module.name: opening(module) for module in modules() if module.text}
    assert {name for name, sentence in opened.items() if not sentence.endswith((".", ":"))} == set()
    assert {
        n for n, sentence in opened.items() if sentence.startswith(("This module", "This file"))
    } == (set())


def test_package_exports_exactly_the_public_names() -> None:
    assert sorted(waybook.__all__) == PUBLIC
    assert all(hasattr(waybook, name) for name in PUBLIC)


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def length(function: Function) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def opening(module: Module) -> str:
    return (ast.get_docstring(module.tree) or "").split("\n\n")[0].strip()
