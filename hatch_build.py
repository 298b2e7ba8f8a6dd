"""Metadata of the built package: its web addresses, and the README as its long description.

The README gets links that work on a package index. The address of the repository comes from the
environment variable `WAYBOOK_REPOSITORY_URL`, because the sources do not say where they are
published. Without this variable, the package has no addresses, and links to other files of the
repository become plain text.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

VARIABLE = "WAYBOOK_REPOSITORY_URL"
PICTURE = re.compile(r"!\[([^\]]*)\]\(((?!\w+:|#)[^)]+)\)\n*")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(((?!\w+:|#)[^)]+)\)")


def long_description(readme: str, url: str | None) -> str:
    """Return the README with absolute links. Without a URL, remove the links to other files."""
    if url is None:
        return LINK.sub(r"\1", PICTURE.sub("", readme))
    base = url.rstrip("/")
    pictures = PICTURE.sub(rf"![\1]({base}/raw/main/\2)\n\n", readme)
    return LINK.sub(rf"[\1]({base}/blob/main/\2)", pictures)


def addresses(url: str | None) -> dict[str, str]:
    """Return the addresses that a package index shows next to the package."""
    if url is None:
        return {}
    base = url.rstrip("/")
    return {
        "Homepage": base,
        "Documentation": f"{base}/blob/main/docs/start.md",
        "Changelog": f"{base}/blob/main/CHANGELOG.md",
        "Issues": f"{base}/issues",
        "Source": base,
    }


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        url = os.environ.get(VARIABLE) or None
        text = (Path(self.root) / "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": long_description(text, url),
        }
        metadata["urls"] = addresses(url)
