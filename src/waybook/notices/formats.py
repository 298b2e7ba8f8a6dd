"""The body of a letter, in the format its receiver reads."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import orjson

from waybook.notices.letter import WebhookMessage
from waybook.notices.texts import Message, Templates, render_message
from waybook.record.moment import Json, rfc3339
from waybook.record.notice import NotificationKind
from waybook.record.oddities import FLAG, escape_hidden, hidden_by_field

JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


class WebhookFormat(StrEnum):
    """What a receiver reads."""

    #: The payload of Standard Webhooks, for programs.
    STANDARD = "standard"
    #: A message in the form of Slack's incoming webhooks, which other chats take too.
    SLACK = "slack"
    #: Plain text, the subject in its first line.
    TEXT = "text"


class EncodedBody(NamedTuple):
    content_type: str
    body: bytes


def encode_body(letter: WebhookMessage, form: WebhookFormat, texts: Templates) -> EncodedBody:
    """The body to send: the same bytes at every attempt.

    Raises:
        Exhausted: its template would cost too much.
    """
    told = payload(letter)
    if form is WebhookFormat.STANDARD:
        return EncodedBody(JSON, orjson.dumps(told))
    template, seen = texts[NotificationKind(letter.event)], _each_text(told, escape_hidden)
    if form is WebhookFormat.TEXT:
        return EncodedBody(PLAIN, _as_text(render_message(template, seen)).encode())
    said = _as_slack(render_message(template, _each_text(seen, escape_chat_text)))
    return EncodedBody(JSON, orjson.dumps({"text": said}))


def payload(letter: WebhookMessage) -> dict[str, Json]:
    """The letter as programs read it, with the flag that a reply would have."""
    odd = hidden_by_field(letter.data)
    data = {**letter.data, FLAG: odd} if odd else letter.data
    return {"type": letter.event, "timestamp": rfc3339(letter.at), "data": data}


def _as_text(said: Message) -> str:
    return f"{said.subject}\n\n{said.body}\n" if said.body else f"{said.subject}\n"


def _as_slack(said: Message) -> str:
    return f"*{said.subject}*\n{said.body}".strip()


def _each_text(told: Mapping[str, Json], change: Callable[[str], str]) -> dict[str, Json]:
    """The same with every text in it changed so."""
    return {name: _changed(value, change) for name, value in told.items()}


def _changed(value: Json, change: Callable[[str], str]) -> Json:
    match value:
        case str():
            return change(value)
        case list():
            return [_changed(item, change) for item in value]
        case dict():
            return _each_text(value, change)
        case _:
            return value


def escape_chat_text(text: str) -> str:
    """A text as a chat shows it and does not act upon it: no name in it rings a bell.

    >>> escape_chat_text("<!channel> & all")
    '&lt;!channel&gt; &amp; all'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
