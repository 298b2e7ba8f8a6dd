"""Skills: named procedures, read from folders with a `SKILL.md`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

SKILL_FILE = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillFile:
    path: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
    front_matter: Mapping[str, object] = field(default_factory=dict)
    files: tuple[SkillFile, ...] = ()

    def file(self, path: str) -> SkillFile | None:
        return next((file for file in self.files if file.path == path), None)

    @property
    def extra_files(self) -> tuple[SkillFile, ...]:
        return tuple(file for file in self.files if file.path != SKILL_FILE)
