"""What a letter says to people: one template for each occasion, the subject in its first line.

The notation is that of prompts, cut down and within bounds as there. Whoever runs the server may
have texts of their own in a folder, under the same names.
"""

from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from jinja2 import Template

from waybook.dag.template_budget import Exhausted
from waybook.dag.template_engine import compiled, output
from waybook.dag.template_language import TemplateFault
from waybook.errors import Misconfigured
from waybook.notices.samples import sample
from waybook.record.moment import Json
from waybook.record.notice import Occasion

SUFFIX = ".txt"
#: The names a template has.
NAMES = frozenset({"type", "timestamp", "data"})
#: What chats and mails take, in characters.
LONGEST_SUBJECT = 300
LONGEST_BODY = 3_000

Texts: TypeAlias = Mapping[Occasion, Template]


class Message(NamedTuple):
    subject: str
    body: str


def file_of(occasion: Occasion) -> str:
    """The name of the template's file."""
    return f"{occasion}{SUFFIX}"


def read_texts(own: Mapping[str, str]) -> Texts:
    """The templates, ours where there are none of their own; `own` are texts by name of file.

    Raises:
        Misconfigured: a file is for no occasion, or not a good template.
    """
    unknown = sorted(own.keys() - {file_of(occasion) for occasion in Occasion})
    if unknown:
        raise Misconfigured(f"webhook_templates_dir: {unknown[0]} is the text of no event")
    folder = files("waybook.notices").joinpath("templates")
    found: dict[Occasion, Template] = {}
    for occasion in Occasion:
        name = file_of(occasion)
        text = own[name] if name in own else folder.joinpath(name).read_text("utf-8")
        found[occasion] = _checked(text, occasion)
    return MappingProxyType(found)


def _checked(text: str, occasion: Occasion) -> Template:
    """A template that says something of a sample."""
    try:
        template = compiled(text, NAMES)
        empty = not output(template, sample(occasion)).strip()
    except (TemplateFault, Exhausted) as fault:
        raise Misconfigured(f"webhook_templates_dir: {file_of(occasion)}: {fault}") from None
    if empty:
        raise Misconfigured(f"webhook_templates_dir: {file_of(occasion)} says nothing")
    return template


def message(template: Template, told: Mapping[str, Json]) -> Message:
    """What the template says of a letter.

    Raises:
        Exhausted: it would cost too much.
    """
    subject, _, body = output(template, told).strip().partition("\n")
    return Message(subject.strip()[:LONGEST_SUBJECT], body.strip()[:LONGEST_BODY])
