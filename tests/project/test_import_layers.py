"""Layers of the architecture: modules import from lower layers only, and no import is hidden."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from project.repository import ROOT, SOURCE, modules

#: Modules that import other modules by name, in order to load only the modules that are used: the
#: commands, the Python API, Jinja and YAML, and optional endpoints.
IMPORTS_BY_NAME = {
    "src/waybook/__init__.py",
    "src/waybook/app/registry.py",
    "src/waybook/app/request/definition_cache.py",
    "src/waybook/cli/lazy.py",
    "src/waybook/dag/templates/template.py",
    "src/waybook/integrations/factory.py",
    "src/waybook/app/request/search/portable_search.py",
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
        for function in functions(module.tree)
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
    # Users import from these packages, so their init files may have content.
    public = {SOURCE, SOURCE / "client"}
    inner = [m for m in modules() if m.path.name == "__init__.py" and m.path.parent not in public]
    assert [module.name for module in inner if module.text] == []


def functions(tree: ast.Module) -> Iterator[ast.AST]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    return (node for node in ast.walk(tree) if isinstance(node, kinds))
