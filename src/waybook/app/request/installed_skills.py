"""Skills of this process: those built in, and those in the configured folders."""

from waybook.app.request.services import Services
from waybook.app.skills.loader import read_skills
from waybook.app.skills.skill import Skill


class InstalledSkills(tuple[Skill, ...]):
    __slots__ = ()


def installed_skills(services: Services) -> tuple[Skill, ...]:
    """Return the skills, which are read on first use."""
    folders = services.settings.skills_dirs
    return services.shared(InstalledSkills, lambda: InstalledSkills(read_skills(folders)))
