"""Media types of what can be kept: texts, by `type/subtype`."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from waybook.errors import InvalidInput

#: As RFC 6838 has it, in lower case.
NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
SYNTAX = re.compile(rf"({NAME})/({NAME})")
#: Texts that do not say so in their first word.
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

#: What the names of files end with.
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


def parse_text_type(told: str) -> str:
    """The media type, in lower case and without parameters: what is kept is UTF-8, always.

    Raises:
        InvalidInput: it is no media type, or not that of a text.

    >>> parse_text_type("Text/Markdown; charset=utf-8")
    'text/markdown'
    """
    kind = told.partition(";")[0].strip().lower()
    if not SYNTAX.fullmatch(kind):
        raise InvalidInput(
            "mediaType must be a media type such as text/markdown", argument="mediaType"
        )
    if not (kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(SUFFIXES)):
        raise InvalidInput(
            f"{kind} is not the type of a text, and only texts are kept: text/…, "
            f"{', '.join(sorted(TEXT_TYPES))}, and what ends in {', '.join(SUFFIXES)}",
            argument="mediaType",
        )
    return kind


def is_json(kind: str) -> bool:
    """Whether texts of this type are one JSON value."""
    return kind == "application/json" or kind.endswith("+json")


def file_extension(kind: str) -> str:
    """What the name of a file of this type ends with.

    >>> (
    ...     file_extension("text/markdown"),
    ...     file_extension("application/ld+json"),
    ...     file_extension("text/x-diary"),
    ... )
    ('md', 'json', 'txt')
    """
    suffix = kind.rpartition("+")[2]
    return FILE_EXTENSIONS.get(kind) or (suffix if kind.endswith(SUFFIXES) else "txt")
