"""Creates the content of webhook messages from templates.

Each kind of notification has one template. Its first line is the subject. The operator can replace
a template with a file of the same name.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TypeAlias

import orjson
import yaml
from jinja2 import Template

from waybook.core.events import NotificationKind
from waybook.core.hidden_characters import FLAG, escape_hidden, hidden_by_field
from waybook.dag.templates.engine import (
    TemplateBudgetExceeded,
    TemplateRuleError,
    compile_template,
    render_template,
)
from waybook.errors import Misconfigured
from waybook.json_values import Json, rfc3339
from waybook.notifications.delivery import WebhookFormat, WebhookMessage


@cache
def _samples() -> dict[str, dict[str, Json]]:
    text = files("waybook.notifications").joinpath("samples.yaml").read_text("utf-8")
    samples: dict[str, dict[str, Json]] = yaml.safe_load(text)
    return samples


def sample_payload(occasion: NotificationKind) -> dict[str, Json]:
    data: dict[str, Json] = {**_samples()[occasion]}
    return {"type": str(occasion), "timestamp": "2030-01-01T12:00:00+00:00", "data": data}


SUFFIX = ".txt"
_TEMPLATE_VARIABLES = frozenset({"type", "timestamp", "data"})
#: Maximum lengths that chat and mail systems accept.
MAX_SUBJECT_LENGTH = 300
MAX_BODY_LENGTH = 3_000

Templates: TypeAlias = Mapping[NotificationKind, Template]


def template_file(occasion: NotificationKind) -> str:
    return f"{occasion}{SUFFIX}"


def load_templates(own: Mapping[str, str]) -> Templates:
    """Return a template for each kind of notification.

    `own` has the operator's templates by file name.
    """
    unknown = sorted(own.keys() - {template_file(occasion) for occasion in NotificationKind})
    if unknown:
        raise Misconfigured(f"webhook_format: no notification uses the template {unknown[0]}")
    folder = files("waybook.notifications").joinpath("templates")
    templates: dict[NotificationKind, Template] = {}
    for occasion in NotificationKind:
        name = template_file(occasion)
        text = own[name] if name in own else folder.joinpath(name).read_text("utf-8")
        templates[occasion] = _checked(text, occasion)
    return MappingProxyType(templates)


def _checked(text: str, occasion: NotificationKind) -> Template:
    """Compile a template, and check that it renders the sample payload."""
    try:
        template = compile_template(text, _TEMPLATE_VARIABLES)
        empty = not render_template(template, sample_payload(occasion)).strip()
    except (TemplateRuleError, TemplateBudgetExceeded) as error:
        raise Misconfigured(f"webhook_format: {template_file(occasion)}: {error}") from None
    if empty:
        raise Misconfigured(f"webhook_format: {template_file(occasion)} gives an empty text")
    return template


def _render_message(template: Template, fields: Mapping[str, Json]) -> tuple[str, str]:
    """Render a message, and return its subject (the first line) and its body."""
    subject, _, body = render_template(template, fields).strip().partition("\n")
    return subject.strip()[:MAX_SUBJECT_LENGTH], body.strip()[:MAX_BODY_LENGTH]


JSON = "application/json"
PLAIN = "text/plain; charset=utf-8"


def encode_body(
    message: WebhookMessage, form: WebhookFormat, texts: Templates
) -> tuple[str, bytes]:
    """Return the content type and the HTTP body of a message.

    A retried delivery sends the same bytes.
    """
    fields = payload(message)
    if form is WebhookFormat.STANDARD:
        return JSON, orjson.dumps(fields)
    template, shown = texts[NotificationKind(message.event)], _each_text(fields, escape_hidden)
    if form is WebhookFormat.TEXT:
        subject, body = _render_message(template, shown)
        text = f"{subject}\n\n{body}\n" if body else f"{subject}\n"
        return PLAIN, text.encode()
    subject, body = _render_message(template, _each_text(shown, _escape_chat_text))
    return JSON, orjson.dumps({"text": f"*{subject}*\n{body}".strip()})


def payload(message: WebhookMessage) -> dict[str, Json]:
    """Return the JSON payload of a message, with the number of hidden characters if it has any."""
    odd = hidden_by_field(message.data)
    data = {**message.data, FLAG: odd} if odd else message.data
    return {"type": message.event, "timestamp": rfc3339(message.at), "data": data}


def _each_text(fields: Mapping[str, Json], change: Callable[[str], str]) -> dict[str, Json]:
    return {name: _changed(value, change) for name, value in fields.items()}


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


def _escape_chat_text(text: str) -> str:
    """Escape a text so that a chat displays it literally and triggers no mentions.

    >>> _escape_chat_text("<!channel> & all")
    '&lt;!channel&gt; &amp; all'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
