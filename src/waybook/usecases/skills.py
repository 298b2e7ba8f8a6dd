"""Skills: named ways of working, read from folders with a `SKILL.md`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    name: str
    description: str
    body: str
    output_media_type: str | None = None
    formatting_instructions: str | None = None
