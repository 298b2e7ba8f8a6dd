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

from waybook.usecases.skill_text import InvalidSkill, parse_skill
from waybook.usecases.skills import SKILL_FILE, Skill, SkillFile

log = logging.getLogger(__name__)

MAX_SKILLS = 100
MAX_FILES = 200
MAX_BYTES = 4_000_000
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class SkillError:
    """What was left out, and why."""

    path: str
    message: str


@dataclass(frozen=True, slots=True)
class SkillScan:
    skills: tuple[Skill, ...]
    errors: tuple[SkillError, ...]


def read_skills(directories: str) -> tuple[Skill, ...]:
    """The skills there are; what is not in order is left out, with a warning in the log."""
    found = find_skills(directories)
    for error in found.errors:
        log.warning("skill %s left out: %s", error.path, error.message)
    return found.skills


def find_skills(directories: str) -> SkillScan:
    """The built-in skills and those of the given folders, by name; a later one wins."""
    shipped = Path(str(files("waybook").joinpath("skills")))
    places = [shipped, *(Path(d).expanduser() for d in directories.split(os.pathsep) if d)]
    by_name: dict[str, Skill] = {}
    faults: list[SkillError] = []
    for place in places:
        if not place.is_dir():
            faults.append(SkillError(str(place), "there is no such folder"))
        for folder in sorted(place.glob("*/")):
            if os.path.lexists(folder / SKILL_FILE):
                try:
                    _add(read_skill(folder), by_name)
                except (OSError, UnicodeDecodeError, InvalidSkill) as error:
                    faults.append(SkillError(str(folder), _in_words(error)))
    return SkillScan(tuple(by_name[name] for name in sorted(by_name)), tuple(faults))


def _add(skill: Skill, by_name: dict[str, Skill]) -> None:
    if skill.name not in by_name and len(by_name) == MAX_SKILLS:
        raise InvalidSkill(f"there are {MAX_SKILLS} skills already")
    by_name[skill.name] = skill


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror}"
    return "SKILL.md is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)


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
        if len(kept) == MAX_FILES or size > MAX_BYTES:
            raise InvalidSkill(f"it has over {MAX_FILES} files, or over {MAX_BYTES:,} bytes")
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
        if len(here.relative_to(folder).parts) >= MAX_DEPTH and inner:
            raise InvalidSkill(f"its folders are more than {MAX_DEPTH} deep")
        for name in inner:
            if (here / name).is_symlink():
                raise InvalidSkill(
                    f"{name} is a link to a folder, and links to folders are not read"
                )
        for name in sorted(names):
            if not name.startswith("."):
                yield _inside(here / name, root)


def _inside(path: Path, root: Path) -> Path:
    if not path.resolve().is_relative_to(root):
        raise InvalidSkill(f"{path.name} is a link that leads out of the folder")
    if not stat.S_ISREG(path.stat().st_mode):
        raise InvalidSkill(f"{path.name} is not a file")
    return path
