"""Loads skills: folders with a `SKILL.md`, which has front matter and instructions.

An invalid folder is skipped with a warning that lists its errors.
"""

import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import cast

import yaml

from waybook.app.skills.skill import SKILL_FILE, Skill, SkillFile
from waybook.errors import InvalidInput
from waybook.plan.store_output import parse_text_type

_PARTS = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MAX_NAME_LENGTH = 64
_MAX_DESCRIPTION_LENGTH = 1_024
_MAX_COMPATIBILITY_LENGTH = 500
_MAX_FORMATTING_LENGTH = 20_000
_FORMATTING = "formatting-instructions"
_MAX_BYTES = 40_000
_MAX_FRONT_MATTER_BYTES = 8_000
#: Maximum number of opening brackets in front matter: the YAML parser is slow on deep nesting.
_MAX_BRACKETS = 100


class InvalidSkill(ValueError):
    """A folder does not contain a valid skill."""


def parse_skill(text: str, folder: str) -> Skill:
    """Return a skill from the text of its `SKILL.md` and the name of its folder."""
    if len(text.encode()) > _MAX_BYTES:
        raise InvalidSkill(f"SKILL.md is over {_MAX_BYTES:,} bytes; move details to references/")
    parts = _PARTS.match(text)
    if parts is None:
        raise InvalidSkill("SKILL.md must begin with front matter between lines of ---")
    if len(parts[1]) > _MAX_FRONT_MATTER_BYTES:
        raise InvalidSkill(f"the front matter is over {_MAX_FRONT_MATTER_BYTES:,} characters")
    if parts[1].count("[") + parts[1].count("{") > _MAX_BRACKETS:
        raise InvalidSkill(f"the front matter has over {_MAX_BRACKETS} brackets")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(parts[1])):
            raise InvalidSkill("the front matter has a YAML alias (*), which is not supported")
        head = _plain(yaml.safe_load(parts[1]))
    except (yaml.YAMLError, RecursionError) as error:
        message = " ".join(str(error).split())[:200]
        raise InvalidSkill(f"the front matter is not YAML: {message}") from None
    if not isinstance(head, dict):
        raise InvalidSkill("the front matter must be a mapping of names to values")
    _check_front_matter(head)
    if head["name"] != folder:
        raise InvalidSkill(f"the name {head['name']!r} differs from the folder {folder!r}")
    metadata = cast("dict[str, object]", head.get("metadata") or {})
    media_type, formatting = _output_format(metadata)
    return Skill(
        name=folder,
        description=str(head["description"]).strip(),
        body=parts[2].strip(),
        output_media_type=media_type,
        formatting_instructions=formatting,
        front_matter=MappingProxyType(head),
    )


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _check_front_matter(head: Mapping[str, object]) -> None:
    name, description = head.get("name"), head.get("description")
    if not isinstance(name, str) or not name:
        raise InvalidSkill("the front matter needs a name")
    if len(name) > _MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        raise InvalidSkill(
            f"the name {name[:80]!r} must have at most {_MAX_NAME_LENGTH} lower-case letters, "
            "digits and single hyphens"
        )
    if not isinstance(description, str) or not description.strip():
        raise InvalidSkill("the front matter needs a description")
    if len(description.strip()) > _MAX_DESCRIPTION_LENGTH:
        raise InvalidSkill(f"the description is over {_MAX_DESCRIPTION_LENGTH:,} characters")
    if not isinstance(head.get("license", ""), str):
        raise InvalidSkill("license must be a text")
    needs = head.get("compatibility", " ")
    if not isinstance(needs, str) or not 1 <= len(needs) <= _MAX_COMPATIBILITY_LENGTH:
        raise InvalidSkill(
            f"compatibility must be a text of 1 to {_MAX_COMPATIBILITY_LENGTH} characters"
        )
    if not isinstance(head.get("metadata", {}), dict):
        raise InvalidSkill("metadata must be a mapping of names to values")
    tools = head.get("allowed-tools", "")
    are_texts = isinstance(tools, list) and all(isinstance(tool, str) for tool in tools)
    if not (isinstance(tools, str) or are_texts):
        raise InvalidSkill("allowed-tools must be a text, or a list of texts")


def _output_format(metadata: Mapping[str, object]) -> tuple[str | None, str | None]:
    """Return the media type and the formatting instructions of a skill's output."""
    media_type, formatting = metadata.get("output-media-type"), metadata.get(_FORMATTING)
    try:
        parsed = None if media_type is None else parse_text_type(str(media_type))
    except InvalidInput as error:
        raise InvalidSkill(f"metadata output-media-type: {error.message}") from None
    if isinstance(formatting, str | None) and len(formatting or "") <= _MAX_FORMATTING_LENGTH:
        return parsed, formatting
    raise InvalidSkill(
        f"metadata {_FORMATTING} must be a text of at most {_MAX_FORMATTING_LENGTH:,} characters"
    )


log = logging.getLogger(__name__)

MAX_SKILLS = 100
MAX_FILES = 200
MAX_FOLDER_BYTES = 4_000_000
_MAX_DEPTH = 8


def read_skills(directories: str) -> tuple[Skill, ...]:
    skills, errors = find_skills(directories)
    for path, message in errors:
        log.warning("skill %s left out: %s", path, message)
    return skills


def find_skills(directories: str) -> tuple[tuple[Skill, ...], tuple[tuple[str, str], ...]]:
    """Return all built-in and configured skills, and the path and error of each invalid folder.

    If several skills have the same name, the last one is used.
    """
    shipped = Path(str(files("waybook").joinpath("skills")))
    places = [shipped, *(Path(d).expanduser() for d in directories.split(os.pathsep) if d)]
    by_name: dict[str, Skill] = {}
    faults: list[tuple[str, str]] = []
    for place in places:
        if not place.is_dir():
            faults.append((str(place), "there is no such folder"))
        for folder in sorted(place.glob("*/")):
            if not os.path.lexists(folder / SKILL_FILE):
                continue
            try:
                skill = read_skill(folder)
            except OSError as error:
                faults.append((str(folder), f"it cannot be read: {error.strerror}"))
            except UnicodeDecodeError:
                faults.append((str(folder), "SKILL.md is not UTF-8"))
            except InvalidSkill as error:
                faults.append((str(folder), str(error)))
            else:
                if skill.name in by_name or len(by_name) < MAX_SKILLS:
                    by_name[skill.name] = skill
                else:
                    message = f"more than {MAX_SKILLS} skills; this one was not loaded"
                    faults.append((str(folder), message))
    return tuple(by_name[name] for name in sorted(by_name)), tuple(faults)


def read_skill(folder: Path) -> Skill:
    """Return the skill in a folder, with its files.

    Raises:
        InvalidSkill: the skill has an invalid format, is too large, or links to files outside its
            folder.
        OSError, UnicodeDecodeError: a file cannot be read.
    """
    skill_files: list[SkillFile] = []
    size = 0
    for path in _paths(folder):
        size += path.stat().st_size
        if len(skill_files) == MAX_FILES or size > MAX_FOLDER_BYTES:
            raise InvalidSkill(f"it has over {MAX_FILES} files or {MAX_FOLDER_BYTES:,} bytes")
        skill_files.append(SkillFile(path.relative_to(folder).as_posix(), path.read_bytes()))
    skill_files.sort(key=lambda file: (file.path != SKILL_FILE, file.path))
    skill = parse_skill(skill_files[0].content.decode("utf-8-sig"), folder.name)
    return replace(skill, files=tuple(skill_files))


def _paths(folder: Path) -> Iterator[Path]:
    """Yield the files of a skill folder. Links that leave the folder are rejected."""
    root = folder.resolve()
    for above, inner, names in os.walk(folder):
        here = Path(above)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        if len(here.relative_to(folder).parts) >= _MAX_DEPTH and inner:
            raise InvalidSkill(f"its folders are nested more than {_MAX_DEPTH} levels deep")
        for name in inner:
            if (here / name).is_symlink():
                raise InvalidSkill(f"{name} is a symbolic link to a folder, which is not supported")
        for name in sorted(names):
            if not name.startswith("."):
                path = here / name
                if not path.resolve().is_relative_to(root):
                    raise InvalidSkill(f"{name} is a symbolic link to a place outside the folder")
                if not stat.S_ISREG(path.stat().st_mode):
                    raise InvalidSkill(f"{name} is not a regular file")
                yield path
