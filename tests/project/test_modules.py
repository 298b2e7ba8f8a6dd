"""Modules of the source: sizes, names, docstrings, imports between layers, and no SQL."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import waybook
from project.repository import ROOT, SOURCE, Module, modules

MAX_MODULE_LINES = 500
MAX_FUNCTION_LINES = 60
MAX_MODULES_PER_FOLDER = 30

#: Names of modules that would say nothing about their content.
NAMELESS = {"base", "common", "helpers", "manager", "misc", "shared", "types", "util", "utils"}

#: Names that `import waybook` offers. Add a name only on purpose.
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


# Tests of imports.


#: Modules that import other modules by name, so that only the needed modules are loaded: commands,
#: the Python API, Jinja and YAML, and optional endpoints.
IMPORTS_BY_NAME = {
    "src/waybook/__init__.py",
    "src/waybook/app/registry.py",
    "src/waybook/app/request/definition_cache.py",
    "src/waybook/app/operations/diagnostics.py",
    "src/waybook/cli/lazy.py",
    "src/waybook/dag/templates/template.py",
    "src/waybook/integrations/factory.py",
    "src/waybook/app/request/search_backend.py",
}


def test_source_passes_all_import_linter_contracts() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_source_has_no_imports_inside_functions() -> None:
    locations = {
        f"{module.name}:{node.lineno}"
        for module in modules()
        for function in all_functions(module.tree)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert locations == set()


def test_dynamic_imports_occur_only_in_allowed_modules() -> None:
    module_names = {
        module.name
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id in {"import_module", "__import__"}
    }
    assert module_names == IMPORTS_BY_NAME


def test_source_does_not_use_type_checking_guard() -> None:
    assert [module.name for module in modules() if "TYPE_CHECKING" in module.text] == []


def test_internal_init_files_are_empty() -> None:
    # The `__init__.py` of these packages may have content, because users import from the packages.
    public = {SOURCE, SOURCE / "client"}
    inner = [m for m in modules() if m.path.name == "__init__.py" and m.path.parent not in public]
    assert [module.name for module in inner if module.text] == []


def all_functions(tree: ast.Module) -> Iterator[ast.AST]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    return (node for node in ast.walk(tree) if isinstance(node, kinds))


# Tests of SQL.


QUERY = re.compile(
    r"\s*(select\s+\S|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|with\s+\w+\s+as\s*\()"
)

#: Queries that are too small for a `.sql` file.
ALLOWED = {"select app_now()", "select org_id from org"}

NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def test_python_modules_contain_no_sql_query() -> None:
    queries = {
        f"{module.name}:{node.lineno}": node.value
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if QUERY.match(node.value) and node.value not in ALLOWED
    }
    assert queries == {}


def test_sql_file_query_names_are_unique() -> None:
    files = sorted(SOURCE.glob("store/*.sql"))
    names = {file.name: NAMED.findall(file.read_text(encoding="utf-8")) for file in files}
    assert any(names.values())
    assert {file for file, queries in names.items() if len(queries) > len(set(queries))} == set()
