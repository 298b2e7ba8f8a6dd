"""Generated files: the tool list, a picture, and pages with generated parts."""

import json
from collections.abc import Iterator
from pathlib import Path

from tools.generate import reference, tool_list
from waybook.app.registry import TOOLS
from waybook.dag.diagram.svg import drawing_from_snapshot, export_drawing
from waybook.dag.model import DrawingFormat

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "waybook"
TOOL_LIST = PACKAGE / "transport" / "mcp" / "tools.json"
EXAMPLE = ROOT / "examples" / "snapshot.json"
EXAMPLE_PICTURE = ROOT / "docs" / "pictures" / "snapshot.svg"


def tool_files() -> Iterator[tuple[Path, str]]:
    """Yield the tool list, and the picture of the example snapshot."""
    yield TOOL_LIST, tool_list.render(TOOLS)
    example = json.loads(EXAMPLE.read_text("utf-8"))
    yield EXAMPLE_PICTURE, export_drawing(DrawingFormat.SVG, drawing_from_snapshot(example))


def pages(schema: str) -> Iterator[tuple[Path, str]]:
    for page in sorted((ROOT / "docs").rglob("*.md")):
        text = page.read_text("utf-8")
        if reference.PART.search(text):
            yield page, reference.render(text, schema)
