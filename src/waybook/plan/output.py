"""Outputs of a plan: versioned text documents and their media types."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from waybook.errors import InvalidInput

NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
SYNTAX = re.compile(rf"({NAME})/({NAME})")
TEXT_TYPES = frozenset(
    {
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/sql",
        "application/toml",
        "application/x-ndjson",
        "application/x-tex",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
    }
)
SUFFIXES = ("+json", "+xml", "+yaml")
#: The types that the tool list names, of the text types that are accepted.
COMMON_TYPES = (
    "text/markdown",
    "text/plain",
    "text/html",
    "text/csv",
    "application/json",
)

FILE_EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        "application/javascript": "js",
        "application/json": "json",
        "application/jsonl": "jsonl",
        "application/sql": "sql",
        "application/toml": "toml",
        "application/x-ndjson": "ndjson",
        "application/x-tex": "tex",
        "application/x-yaml": "yaml",
        "application/xml": "xml",
        "application/yaml": "yaml",
        "image/svg+xml": "svg",
        "text/css": "css",
        "text/csv": "csv",
        "text/html": "html",
        "text/javascript": "js",
        "text/markdown": "md",
        "text/tab-separated-values": "tsv",
        "text/xml": "xml",
        "text/x-tex": "tex",
        "text/yaml": "yaml",
    }
)


def parse_text_type(media_type: str) -> str:
    """Return a media type in lower case, without parameters.

    >>> parse_text_type("Text/Markdown; charset=utf-8")
    'text/markdown'
    """
    kind = media_type.partition(";")[0].strip().lower()
    if not SYNTAX.fullmatch(kind):
        raise InvalidInput(
            "mediaType must be a media type such as text/markdown", argument="mediaType"
        )
    if not (kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(SUFFIXES)):
        raise InvalidInput(
            f"{kind} is not a text type, and only text can be stored: text/…, "
            f"{', '.join(sorted(TEXT_TYPES))}, and types that end in {', '.join(SUFFIXES)}",
            argument="mediaType",
        )
    return kind


def is_json(kind: str) -> bool:
    return kind == "application/json" or kind.endswith("+json")


def file_extension(kind: str) -> str:
    """Return the file extension for this media type.

    >>> (
    ...     file_extension("text/markdown"),
    ...     file_extension("application/ld+json"),
    ...     file_extension("text/x-diary"),
    ... )
    ('md', 'json', 'txt')
    """
    suffix = kind.rpartition("+")[2]
    return FILE_EXTENSIONS.get(kind) or (suffix if kind.endswith(SUFFIXES) else "txt")


OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    id: str
    title: str
    media_type: str
    version: int
    content_hash: str
    created_at: datetime
    created_by: str


def latest_version(outputs: Iterable[Output], *, title: str, media_type: str) -> Output | None:
    same = (
        output for output in outputs if (output.title, output.media_type) == (title, media_type)
    )
    return max(same, key=lambda output: output.version, default=None)


def latest(outputs: Iterable[Output]) -> list[Output]:
    last: dict[tuple[str, str], Output] = {}
    for output in sorted(outputs, key=lambda output: output.version):
        last[output.title, output.media_type] = output
    return sorted(last.values(), key=lambda output: (output.created_at, output.id), reverse=True)


def is_missing(outputs: Iterable[Output], media_type: str | None) -> bool:
    return media_type is not None and all(output.media_type != media_type for output in outputs)
