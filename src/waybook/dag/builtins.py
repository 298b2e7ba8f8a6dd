"""The definitions that come with Waybook, as they are written: to be run, and to be read."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

SUFFIX = ".yaml"


@cache
def builtin_definitions() -> Mapping[str, str]:
    """The text of each built-in definition, by its slug."""
    folder = files("waybook.dag").joinpath("builtin")
    found = sorted(folder.iterdir(), key=lambda file: file.name)
    return MappingProxyType(
        {
            file.name.removesuffix(SUFFIX): file.read_text(encoding="utf-8")
            for file in found
            if file.name.endswith(SUFFIX)
        }
    )
