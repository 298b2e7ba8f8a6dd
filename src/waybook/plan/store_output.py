"""Stores outputs of a plan. This is the only change that a completed plan accepts."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from waybook.core.changes import Entity, Event, as_json, text_hash
from waybook.core.decision_context import DecisionContext
from waybook.errors import InvalidInput, TooLarge
from waybook.json_values import refuse_constant
from waybook.plan.draft import Decision, Draft, register_session, require_open
from waybook.plan.model import MAX_OUTPUTS, Output, Plan, PlanStatus

NAME = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
SYNTAX = re.compile(rf"({NAME})/({NAME})")
_SUFFIXES = ("+json", "+xml", "+yaml")
#: Text types that the description of the tool gives as examples.
COMMON_TYPES = ("text/markdown", "text/plain", "text/html", "text/csv", "application/json")

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
#: Media types of text that begin with `application/` instead of `text/`.
TEXT_TYPES = frozenset(kind for kind in FILE_EXTENSIONS if kind.startswith("application/"))


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
    if not (kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(_SUFFIXES)):
        raise InvalidInput(
            f"{kind} is not a text type, and only text can be stored: text/…, "
            f"{', '.join(sorted(TEXT_TYPES))}, and types that end in {', '.join(_SUFFIXES)}",
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
    return FILE_EXTENSIONS.get(kind) or (suffix if kind.endswith(_SUFFIXES) else "txt")


OUTPUT = "output"


def latest_version(outputs: Iterable[Output], *, title: str, media_type: str) -> Output | None:
    same = (
        output for output in outputs if (output.title, output.media_type) == (title, media_type)
    )
    return max(same, key=lambda output: output.version, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutput:
    media_type: str
    title: str
    content: str


@dataclass(frozen=True, slots=True)
class StoredOutput:
    #: The new version, or the latest stored version if the content is unchanged.
    output: Output
    is_new: bool


def store_output(
    plan: Plan, new: NewOutput, there: Sequence[Output], context: DecisionContext
) -> Decision[StoredOutput]:
    """Store an output as the next version of its title, unless its content is unchanged.

    Raises:
        PlanTerminal: the plan failed.
        InvalidInput: the media type is JSON, but the content is not.
        TooLarge: the plan has as many outputs as it may have.
    """
    if plan.status is not PlanStatus.COMPLETED:
        require_open(plan)
    _refuse_broken(new)
    draft = Draft(plan, context)
    register_session(draft)
    before = latest_version(there, title=new.title, media_type=new.media_type)
    if before is not None and before.content_hash == text_hash(new.content):
        return draft.decide(StoredOutput(before, is_new=False))
    if len(there) >= MAX_OUTPUTS:
        raise TooLarge(
            f"this plan has {len(there)} outputs, counting versions; the limit is {MAX_OUTPUTS}",
            limit=MAX_OUTPUTS,
        )
    version = 1 + max((output.version for output in there if output.title == new.title), default=0)
    made = Output(
        id=context.new_uuid(),
        title=new.title,
        media_type=new.media_type,
        version=version,
        content_hash=text_hash(new.content),
        created_at=context.now,
        created_by=context.actor.user,
    )
    draft.store_text(
        Entity.ARTIFACT,
        made.id,
        new.content,
        step_id=None,
        kind=OUTPUT,
        title=made.title,
        superseded=False,
        media_type=made.media_type,
        version=version,
        created_at=as_json(made.created_at),
        created_by=made.created_by,
    )
    draft.record(
        Event.PLAN_MODIFIED,
        action="output_stored",
        artifactId=made.id,
        title=made.title,
        mediaType=made.media_type,
        version=version,
    )
    return draft.decide(StoredOutput(made, is_new=True))


def _refuse_broken(new: NewOutput) -> None:
    if is_json(new.media_type):
        try:
            json.loads(new.content, parse_constant=refuse_constant)
        except RecursionError:
            raise InvalidInput("content is nested too deeply", argument="content") from None
        except ValueError as error:
            raise InvalidInput(
                f"mediaType says {new.media_type}, but content is not JSON: {error}",
                argument="content",
            ) from None
