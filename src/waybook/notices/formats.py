"""The body of a letter, in the format its receiver reads."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import orjson

from waybook.notices.letter import Letter
from waybook.notices.texts import Message, Texts, message
from waybook.record.moment import Json, rfc3339
from waybook.record.notice import Occasion

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


class Format(StrEnum):
    """What a receiver reads."""

    #: The payload of Standard Webhooks, for programs.
    STANDARD = "standard"
    #: A message in the form of Slack's incoming webhooks, which other chats take too.
    SLACK = "slack"
    #: Plain text, the subject in its first line.
    TEXT = "text"


class Written(NamedTuple):
    content_type: str
    body: bytes


def written(letter: Letter, form: Format, texts: Texts) -> Written:
    """The body to send: the same bytes at every attempt.

    Raises:
        Exhausted: its template would cost too much.
    """
    told = payload(letter)
    if form is Format.STANDARD:
        return Written(JSON, orjson.dumps(told))
    template = texts[Occasion(letter.event)]
    if form is Format.TEXT:
        return Written(PLAIN, _as_text(message(template, told)).encode())
    said = _as_slack(message(template, _escaped_fields(told)))
    return Written(JSON, orjson.dumps({"text": said}))


def payload(letter: Letter) -> dict[str, Json]:
    """The letter as programs read it."""
    return {"type": letter.event, "timestamp": rfc3339(letter.at), "data": letter.data}


def _as_text(said: Message) -> str:
    return f"{said.subject}\n\n{said.body}\n" if said.body else f"{said.subject}\n"


def _as_slack(said: Message) -> str:
    return f"*{said.subject}*\n{said.body}".strip()


def _escaped_fields(told: Mapping[str, Json]) -> dict[str, Json]:
    return {name: escaped(value) for name, value in told.items()}


def escaped(value: Json) -> Json:
    """Values as a chat shows them and does not act upon them: no name in them rings a bell.

    >>> escaped({"planName": "<!channel> & all"})
    {'planName': '&lt;!channel&gt; &amp; all'}
    """
    match value:
        case str():
            return value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        case list():
            return [escaped(item) for item in value]
        case dict():
            return _escaped_fields(value)
        case _:
            return value
