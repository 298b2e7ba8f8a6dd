"""Reading skills from folders: each a directory with a `SKILL.md` in the open format.

The front matter holds `name` and `description`, and under `metadata` what Waybook adds:
`output-media-type` and `formatting-instructions`.
"""

import logging
import os
from importlib.resources import files
from pathlib import Path

import yaml

from waybook.usecases.skills import Skill

log = logging.getLogger(__name__)

MARK = "---"
MOST_BYTES = 200_000


def read_skills(directories: str) -> tuple[Skill, ...]:
    """The built-in skills and those of the given folders, by name; a later one wins."""
    shipped = Path(str(files("waybook").joinpath("skills")))
    places = [shipped, *(Path(d).expanduser() for d in directories.split(os.pathsep) if d)]
    found = [skill for place in places for skill in _skills_in(place)]
    by_name = {skill.name: skill for skill in found}
    return tuple(by_name[name] for name in sorted(by_name))


def _skills_in(place: Path) -> list[Skill]:
    found = []
    for file in sorted(place.glob("*/SKILL.md")):
        try:
            found.append(parse_skill(file.read_text(encoding="utf-8")[:MOST_BYTES]))
        except (OSError, ValueError, yaml.YAMLError) as fault:
            log.warning("skill %s left out: %s", file.parent.name, fault)
    return found


def parse_skill(text: str) -> Skill:
    """A skill from the text of its `SKILL.md`.

    Raises:
        ValueError: there is no front matter with a name and a description.
    """
    if not text.startswith(MARK):
        raise ValueError("SKILL.md must begin with front matter between lines of ---")
    head, _, body = text[len(MARK) :].partition(f"\n{MARK}")
    told = yaml.safe_load(head)
    if not isinstance(told, dict) or not told.get("name") or not told.get("description"):
        raise ValueError("the front matter needs a name and a description")
    metadata = told.get("metadata") or {}
    return Skill(
        name=str(told["name"]),
        description=str(told["description"]).strip(),
        body=body.strip(),
        output_media_type=metadata.get("output-media-type"),
        formatting_instructions=metadata.get("formatting-instructions"),
    )
