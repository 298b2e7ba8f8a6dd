"""What a letter says to people: one template for each occasion, the subject in its first line.

The notation is that of prompts, cut down and within bounds as there. Whoever runs the server may
have texts of their own in a folder, under the same names.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from jinja2 import Template

from waybook.dag.template_budget import TemplateBudgetExceeded
from waybook.dag.template_engine import compile_template, render_template
from waybook.dag.template_language import TemplateRuleError
from waybook.errors import Misconfigured
from waybook.notices.samples import sample_payload
from waybook.record.moment import Json
from waybook.record.notice import NotificationKind

SUFFIX = ".txt"
#: The names a template has.
TEMPLATE_VARIABLES = frozenset({"type", "timestamp", "data"})
#: What chats and mails take, in characters.
MAX_SUBJECT_LENGTH = 300
MAX_BODY_LENGTH = 3_000

Templates: TypeAlias = Mapping[NotificationKind, Template]


class Message(NamedTuple):
    subject: str
    body: str


def template_file(occasion: NotificationKind) -> str:
    """The name of the template's file."""
    return f"{occasion}{SUFFIX}"


def load_templates(own: Mapping[str, str]) -> Templates:
    """The templates, ours where there are none of their own; `own` are texts by name of file.

    Raises:
        Misconfigured: a file is for no occasion, or not a good template.
    """
    unknown = sorted(own.keys() - {template_file(occasion) for occasion in NotificationKind})
    if unknown:
        raise Misconfigured(f"webhook_templates_dir: {unknown[0]} is the text of no event")
    folder = files("waybook.notices").joinpath("templates")
    found: dict[NotificationKind, Template] = {}
    for occasion in NotificationKind:
        name = template_file(occasion)
        text = own[name] if name in own else folder.joinpath(name).read_text("utf-8")
        found[occasion] = _checked(text, occasion)
    return MappingProxyType(found)


def _checked(text: str, occasion: NotificationKind) -> Template:
    """A template that says something of a sample."""
    try:
        template = compile_template(text, TEMPLATE_VARIABLES)
        empty = not render_template(template, sample_payload(occasion)).strip()
    except (TemplateRuleError, TemplateBudgetExceeded) as error:
        raise Misconfigured(f"webhook_templates_dir: {template_file(occasion)}: {error}") from None
    if empty:
        raise Misconfigured(f"webhook_templates_dir: {template_file(occasion)} says nothing")
    return template


def render_message(template: Template, told: Mapping[str, Json]) -> Message:
    """What the template says of a letter.

    Raises:
        Exhausted: it would cost too much.
    """
    subject, _, body = render_template(template, told).strip().partition("\n")
    return Message(subject.strip()[:MAX_SUBJECT_LENGTH], body.strip()[:MAX_BODY_LENGTH])
