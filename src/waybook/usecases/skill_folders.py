"""Finding skills in folders: each a directory with a `SKILL.md` in the open format.

What is read is read once, when the house opens. A folder that is not in order is left out, with
what is wrong with it.
"""

import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from waybook.usecases.skill_text import BadSkill, parse_skill
from waybook.usecases.skills import SKILL_FILE, Skill, SkillFile

log = logging.getLogger(__name__)

MOST_SKILLS = 100
MOST_FILES = 200
MOST_BYTES = 4_000_000
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Fault:
    """What was left out, and why."""

    place: str
    said: str


@dataclass(frozen=True, slots=True)
class FoundSkills:
    skills: tuple[Skill, ...]
    faults: tuple[Fault, ...]


def read_skills(directories: str) -> tuple[Skill, ...]:
    """The skills there are; what is not in order is left out, with a warning in the log."""
    found = find_skills(directories)
    for fault in found.faults:
        log.warning("skill %s left out: %s", fault.place, fault.said)
    return found.skills


def find_skills(directories: str) -> FoundSkills:
    """The built-in skills and those of the given folders, by name; a later one wins."""
    shipped = Path(str(files("waybook").joinpath("skills")))
    places = [shipped, *(Path(d).expanduser() for d in directories.split(os.pathsep) if d)]
    by_name: dict[str, Skill] = {}
    faults: list[Fault] = []
    for place in places:
        if not place.is_dir():
            faults.append(Fault(str(place), "there is no such folder"))
        for folder in sorted(place.glob("*/")):
            if os.path.lexists(folder / SKILL_FILE):
                try:
                    _add(read_skill(folder), by_name)
                except (OSError, UnicodeDecodeError, BadSkill) as fault:
                    faults.append(Fault(str(folder), _in_words(fault)))
    return FoundSkills(tuple(by_name[name] for name in sorted(by_name)), tuple(faults))


def _add(skill: Skill, by_name: dict[str, Skill]) -> None:
    if skill.name not in by_name and len(by_name) == MOST_SKILLS:
        raise BadSkill(f"there are {MOST_SKILLS} skills already")
    by_name[skill.name] = skill


def _in_words(fault: Exception) -> str:
    if isinstance(fault, OSError):
        return f"it cannot be read: {fault.strerror}"
    return "SKILL.md is not UTF-8" if isinstance(fault, UnicodeDecodeError) else str(fault)


def read_skill(folder: Path) -> Skill:
    """The skill in a folder, with its files.

    Raises:
        BadSkill: it is not in the format, too large, or leads out of its folder.
        OSError, UnicodeDecodeError: a file cannot be read.
    """
    kept: list[SkillFile] = []
    size = 0
    for path in _paths(folder):
        size += path.stat().st_size
        if len(kept) == MOST_FILES or size > MOST_BYTES:
            raise BadSkill(f"it has over {MOST_FILES} files, or over {MOST_BYTES:,} bytes")
        kept.append(SkillFile(path.relative_to(folder).as_posix(), path.read_bytes()))
    kept.sort(key=lambda file: (file.path != SKILL_FILE, file.path))
    skill = parse_skill(kept[0].content.decode("utf-8-sig"), folder.name)
    return replace(skill, files=tuple(kept))


def _paths(folder: Path) -> Iterator[Path]:
    """The files in a folder, hidden ones left out; none of them outside, whatever links say."""
    root = folder.resolve()
    for above, inner, names in os.walk(folder):
        here = Path(above)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if len(here.relative_to(folder).parts) >= DEEPEST and inner:
            raise BadSkill(f"its folders are more than {DEEPEST} deep")
        for name in inner:
            if (here / name).is_symlink():
                raise BadSkill(f"{name} is a link to a folder, and links to folders are not read")
        for name in sorted(names):
            if not name.startswith("."):
                yield _inside(here / name, root)


def _inside(path: Path, root: Path) -> Path:
    if not path.resolve().is_relative_to(root):
        raise BadSkill(f"{path.name} is a link that leads out of the folder")
    if not stat.S_ISREG(path.stat().st_mode):
        raise BadSkill(f"{path.name} is not a file")
    return path
