"""Copy the documentation pages and the files they link to into the site generator's input folder.

Pages link to each other, to examples and to source files with relative paths. The copy has the same
folders as the repository, so these links work unchanged.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\]\(([^)\s#]+)")


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def linked_files(page: Path) -> Iterator[Path]:
    """Yield the files of the repository to which a page links, pictures included."""
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve()
        if "://" not in link and target.is_relative_to(ROOT) and target.is_file():
            yield target


def stage(folder: Path) -> int:
    """Replace the folder by copies of all pages and linked files; return their number."""
    shutil.rmtree(folder, ignore_errors=True)
    files = {*pages(), *(target for page in pages() for target in linked_files(page))}
    for file in files:
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return len(files)


if __name__ == "__main__":
    stage(Path(sys.argv[1]))
