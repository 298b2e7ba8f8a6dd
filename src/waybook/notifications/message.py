"""Creates the content of webhook messages from templates.

Each kind of notification has one template. Its first line is the subject. The operator can replace
a template with a file of the same name.
"""

from collections.abc import Callable, Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import TypeAlias

import orjson
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

_ID = "0190b2f0-0000-7000-8000-00000000000"
_PLAN: dict[str, Json] = {
    "planId": f"{_ID}1",
    "planName": "Rivers",
    "progress": {"percent": 50, "done": 2, "total": 4},
    "url": f"http://127.0.0.1:8750/plans/{_ID}1",
}
_RUN: dict[str, Json] = {
    "runId": f"{_ID}2",
    "runName": "Rivers",
    "dagSlug": "deep-research",
    "progress": {"completedStages": 1, "totalStages": 3},
    "url": f"http://127.0.0.1:8750/runs/{_ID}2",
}
_STEP: dict[str, Json] = {"stepId": f"{_ID}3", "stepOrder": 2, "stepTitle": "Compare them"}
_STAGE: dict[str, Json] = {"stageSlug": "survey", "stageName": "Survey"}
_REVIEW: dict[str, Json] = {
    **_STEP,
    "reviewId": f"{_ID}4",
    "summary": "The longest is the Nile; sources differ.",
    "questions": 1,
}

_COMMENT: dict[str, Json] = {
    "comment": {
        "commentId": f"{_ID}5",
        "text": "Is the Nile really longer? @bob",
        "mentions": [{"user": "bob"}],
        "assignee": "bob",
    }
}
_REVIEWED: dict[str, Json] = {
    **_PLAN,
    "status": "awaiting_review",
    "review": _REVIEW,
    "reviewUrl": f"{_PLAN['url']}#review",
}

_DATA: Mapping[NotificationKind, dict[str, Json]] = MappingProxyType(
    {
        NotificationKind.REVIEW_REQUESTED: _REVIEWED,
        NotificationKind.REVIEW_OVERDUE: {**_REVIEWED, "dueAt": "2029-12-31T12:00:00+00:00"},
        NotificationKind.PLAN_STALLED: {**_PLAN, "status": "stalled", "steps": [_STEP]},
        NotificationKind.PLAN_COMPLETED: {**_PLAN, "status": "completed", "outcome": "completed"},
        NotificationKind.PLAN_FAILED: {**_PLAN, "status": "failed", "outcome": "failed"},
        NotificationKind.PLAN_COMMENTED: {**_PLAN, **_COMMENT, "stepId": f"{_ID}3"},
        NotificationKind.AWAITING_FEEDBACK: {**_RUN, **_STAGE},
        NotificationKind.STAGE_FAILED: {**_RUN, **_STAGE, "failedSteps": ["compare"]},
        NotificationKind.RUN_COMPLETED: _RUN,
        NotificationKind.RUN_CANCELED: {**_RUN, "reason": "The question has changed."},
        NotificationKind.RUN_COMMENTED: {**_RUN, **_COMMENT, "jobId": f"{_ID}6"},
        NotificationKind.TEST: {"url": "http://127.0.0.1:8750"},
    }
)
_WHO: dict[str, Json] = {"orgId": f"{_ID}0", "by": {"user": "ann", "channel": "mcp", "agent": ""}}


def sample_payload(occasion: NotificationKind) -> dict[str, Json]:
    data = {**_WHO, **_DATA[occasion]}
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
