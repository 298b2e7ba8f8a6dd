"""Plan templates that were saved as files in the data directory."""

from pathlib import Path

from waybook.dag.definitions.source_text import MAX_BYTES, decode_text
from waybook.errors import InvalidInput
from waybook.importers.templates import SUFFIX, PlanTemplate, read_template


def templates_folder(data_dir: Path) -> Path:
    return data_dir / "templates"


def saved_templates(data_dir: Path) -> dict[str, PlanTemplate]:
    paths = sorted(templates_folder(data_dir).glob(f"*{SUFFIX}"))
    templates = [_read_file(path) for path in paths]
    return {template.name: template for template in templates}


def _read_file(path: Path) -> PlanTemplate:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"the template {path.name} cannot be read: {error.strerror}") from error
    return read_template(decode_text(data))
