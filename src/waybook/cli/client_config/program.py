"""The command with which a client starts this installation of Waybook."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Final

PROGRAM: Final = "waybook"
#: Folders in which uv keeps environments for a single run, which it deletes later.
_UV_CACHE: Final = re.compile(r"(?:archive|environments|builds)-v\d+")


def program_command() -> list[str]:
    return command_for(sys.argv[0], sys.executable, sys.prefix, shutil.which)


def command_for(
    started_as: str, python: str, prefix: str, find_program: Callable[[str], str | None]
) -> list[str]:
    """Return the command that starts this program again.

    >>> command_for("/bin/waybook", "/bin/python3", "/usr", {"/bin/waybook": "/bin/waybook"}.get)
    ['/bin/waybook']
    """
    if is_temporary_environment(PurePath(prefix)):
        return [find_program("uvx") or "uvx", PROGRAM]
    if PurePath(started_as).stem == PROGRAM and (program := find_program(started_as)):
        return [str(Path(program).absolute())]
    program = find_program(str(PurePath(python).with_name(PROGRAM)))
    return [program] if program else [python, "-m", PROGRAM]


def is_temporary_environment(prefix: PurePath) -> bool:
    """Return whether this environment belongs to `uvx`, which may delete it at any time.

    >>> is_temporary_environment(PurePath("/users/me/.cache/uv/archive-v0/x7Yf"))
    True
    >>> is_temporary_environment(PurePath("/users/me/.local/share/uv/tools/waybook"))
    False
    """
    return any(_UV_CACHE.fullmatch(part) for part in prefix.parts)
