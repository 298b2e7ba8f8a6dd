"""Write every generated file: `python -m tools.generate`, or `make generate`.

`--check` writes nothing and exits with code 1 if a file is out of date. `--keep-schema` reads the
schema from its existing file, so that no database needs to be started.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tools.generate.files import ROOT, SCHEMA, pages, tool_files
from tools.generate.schema import render as render_schema


def generated_files(*, keep_schema: bool) -> Iterator[tuple[Path, str]]:
    """Yield each generated file with its current text."""
    schema = SCHEMA.read_text("utf-8") if keep_schema else render_schema()
    yield SCHEMA, schema
    yield from tool_files()
    yield from pages(schema)


def main(arguments: list[str]) -> int:
    """Write the generated files that are out of date, or only list them; return the exit code."""
    check = "--check" in arguments
    outdated = [
        (path, text)
        for path, text in generated_files(keep_schema="--keep-schema" in arguments)
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path, text in outdated:
        if not check:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{'out of date' if check else 'written'}  {path.relative_to(ROOT)}\n")
    return int(check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
