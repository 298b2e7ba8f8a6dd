"""Write every generated file: `make generate`, or `python -m tools.generate`.

`--check` writes nothing, and exits with 1 if a file is out of date. `--database URL` reads the
schema from this migrated database instead of starting one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tools.generate.files import ROOT, pages, tool_files
from tools.generate.schema import dump, render


def generated_files(dsn: str | None) -> Iterator[tuple[Path, str]]:
    """Yield each generated file with the text that it should have."""
    yield from tool_files()
    yield from pages(dump(dsn) if dsn else render())


def main(arguments: list[str]) -> int:
    """Write the outdated files, or with `--check` only list them; return the exit code."""
    check = "--check" in arguments
    named = "--database" in arguments
    dsn = arguments[arguments.index("--database") + 1] if named else None
    outdated = [
        (path, text)
        for path, text in generated_files(dsn)
        if not path.exists() or path.read_text("utf-8") != text
    ]
    for path, text in outdated:
        if not check:
            path.write_text(text, "utf-8")
        sys.stdout.write(f"{'out of date' if check else 'written'}  {path.relative_to(ROOT)}\n")
    return int(check and bool(outdated))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
