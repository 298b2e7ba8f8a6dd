"""Skills: named ways of working, read from folders with a `SKILL.md`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """A file of a skill, as it was when the skills were read."""

    #: Where it is in the skill's folder, with slashes.
    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
    #: Everything its author wrote at the head of `SKILL.md`, as JSON.
    front_matter: Mapping[str, object] = field(default_factory=dict)
    #: `SKILL.md` first, then the others by their paths.
    files: tuple[SkillFile, ...] = ()

    def file(self, path: str) -> SkillFile | None:
        """The file of this path, if the skill has it."""
        return next((one for one in self.files if one.path == path), None)

    @property
    def extra_files(self) -> tuple[SkillFile, ...]:
        """The files beside `SKILL.md`."""
        return tuple(one for one in self.files if one.path != SKILL_FILE)
