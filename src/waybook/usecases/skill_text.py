"""Reading a `SKILL.md`: front matter in the open format, then what to do.

The front matter holds `name` and `description`, and under `metadata` what Waybook adds:
`output-media-type` and `formatting-instructions`. Names we do not know are kept as they are.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

import yaml

from waybook.errors import InvalidInput
from waybook.plan.media_types import parse_text_type
from waybook.usecases.skills import Skill

PARTS = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)(.*)", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 1_024
MAX_COMPATIBILITY_LENGTH = 500
MAX_FORMATTING_LENGTH = 20_000
MAX_BYTES = 40_000
MAX_FRONT_MATTER_BYTES = 8_000
#: The parser takes its time for what is nested.
MAX_BRACKETS = 100


class InvalidSkill(ValueError):
    """A folder is not a skill; the message says why."""


def parse_skill(text: str, folder: str) -> Skill:
    """A skill from the text of its `SKILL.md` and the name of its folder.

    Raises:
        BadSkill: it is not in the format.
    """
    if len(text.encode()) > MAX_BYTES:
        raise InvalidSkill(f"SKILL.md is over {MAX_BYTES:,} bytes; move details to references/")
    parts = PARTS.match(text)
    if parts is None:
        raise InvalidSkill("SKILL.md must begin with front matter between lines of ---")
    head = _head(parts[1])
    for name, check in CHECKS.items():
        check(head, name)
    if head["name"] != folder:
        raise InvalidSkill(f"the name {head['name']!r} is not that of the folder, {folder!r}")
    metadata = cast("dict[str, object]", head.get("metadata") or {})
    return Skill(
        name=folder,
        description=str(head["description"]).strip(),
        body=parts[2].strip(),
        output_media_type=_media_type(metadata.get("output-media-type")),
        formatting_instructions=_formatting(metadata.get("formatting-instructions")),
        front_matter=MappingProxyType(head),
    )


def _head(text: str) -> dict[str, object]:
    if len(text) > MAX_FRONT_MATTER_BYTES:
        raise InvalidSkill(f"the front matter is over {MAX_FRONT_MATTER_BYTES:,} characters")
    if text.count("[") + text.count("{") > MAX_BRACKETS:
        raise InvalidSkill(f"the front matter has over {MAX_BRACKETS} brackets")
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise InvalidSkill("the front matter repeats itself by an alias (*), which is not read")
        told = _plain(yaml.safe_load(text))
    except (yaml.YAMLError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise InvalidSkill(f"the front matter is not YAML: {said}") from None
    if not isinstance(told, dict):
        raise InvalidSkill("the front matter must be a list of names with values")
    return told


def _plain(value: object) -> object:
    """The value as JSON: names are texts, and so is what JSON has no form for."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


FrontMatter = Mapping[str, object]


def _name(head: FrontMatter, name: str) -> None:
    told = head.get(name)
    if not isinstance(told, str) or not told:
        raise InvalidSkill("the front matter needs a name")
    if len(told) > MAX_NAME_LENGTH or not NAME.fullmatch(told):
        raise InvalidSkill(
            f"the name {told[:80]!r} must be of small letters, digits and single hyphens, at "
            f"most {MAX_NAME_LENGTH}"
        )


def _description(head: FrontMatter, name: str) -> None:
    told = head.get(name)
    if not isinstance(told, str) or not told.strip():
        raise InvalidSkill("the front matter needs a description")
    if len(told.strip()) > MAX_DESCRIPTION_LENGTH:
        raise InvalidSkill(f"the description is over {MAX_DESCRIPTION_LENGTH:,} characters")


def _compatibility(head: FrontMatter, name: str) -> None:
    told = head.get(name, " ")
    if not isinstance(told, str) or not 1 <= len(told) <= MAX_COMPATIBILITY_LENGTH:
        raise InvalidSkill(
            f"compatibility must be a text of 1 to {MAX_COMPATIBILITY_LENGTH} characters"
        )


def _license(head: FrontMatter, name: str) -> None:
    if not isinstance(head.get(name, ""), str):
        raise InvalidSkill("license must be a text")


def _metadata(head: FrontMatter, name: str) -> None:
    if not isinstance(head.get(name, {}), dict):
        raise InvalidSkill("metadata must be a list of names with values")


def _allowed_tools(head: FrontMatter, name: str) -> None:
    told = head.get(name, "")
    texts = isinstance(told, list) and all(isinstance(one, str) for one in told)
    if not (isinstance(told, str) or texts):
        raise InvalidSkill("allowed-tools must be a text, or a list of texts")


CHECKS: Mapping[str, Callable[[FrontMatter, str], None]] = {
    "name": _name,
    "description": _description,
    "license": _license,
    "compatibility": _compatibility,
    "metadata": _metadata,
    "allowed-tools": _allowed_tools,
}


def _media_type(told: object) -> str | None:
    if told is None:
        return None
    try:
        return parse_text_type(str(told))
    except InvalidInput as error:
        raise InvalidSkill(f"metadata output-media-type: {error.message}") from None


def _formatting(told: object) -> str | None:
    if told is None:
        return None
    if not isinstance(told, str) or len(told) > MAX_FORMATTING_LENGTH:
        raise InvalidSkill(
            "metadata formatting-instructions must be a text of at most "
            f"{MAX_FORMATTING_LENGTH:,} characters"
        )
    return told
