"""Skills: named procedures, read from folders with a `SKILL.md`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillFile:
    """File of a skill, as it was when the skills were loaded."""

    #: Path of the file relative to the skill's folder, with forward slashes.
    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
    #: The whole front matter of `SKILL.md`, as JSON.
    front_matter: Mapping[str, object] = field(default_factory=dict)
    #: Files of the skill: `SKILL.md` first, then the other files sorted by path.
    files: tuple[SkillFile, ...] = ()

    def file(self, path: str) -> SkillFile | None:
        """Return the skill's file with this path, or None if it does not exist."""
        return next((file for file in self.files if file.path == path), None)

    @property
    def extra_files(self) -> tuple[SkillFile, ...]:
        """Return the skill's files other than `SKILL.md`."""
        return tuple(file for file in self.files if file.path != SKILL_FILE)
