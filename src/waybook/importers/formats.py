"""Detects the format of a file, and reads the plan in it.

A file that cannot be read raises `InvalidInput`, whose message names the line.
"""

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable
from enum import StrEnum
from functools import partial

from waybook.errors import TooLarge
from waybook.importers.github import is_github, read_github
from waybook.importers.markdown import read_markdown
from waybook.importers.mermaid import is_mermaid, read_mermaid
from waybook.importers.steps import (
    MAX_LENGTH,
    ImportedPlan,
    ItemList,
    at_line,
    build_plan,
    read_document,
)
from waybook.importers.trackers import is_beads, is_task_master, read_beads, read_task_master


class PlanFormat(StrEnum):
    MARKDOWN = "markdown"
    MERMAID = "mermaid"
    TASK_MASTER = "task-master"
    BEADS = "beads"
    GITHUB = "github"


#: For each format in JSON: a function that returns whether a document has this format.
_JSON_FORMATS = {
    PlanFormat.TASK_MASTER: is_task_master,
    PlanFormat.BEADS: is_beads,
    PlanFormat.GITHUB: is_github,
}


def decode(data: bytes) -> str:
    # PowerShell writes redirected output as UTF-16 with a byte order mark.
    encoding = "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].decode(encoding, "ignore").count("\n") + 1
        raise at_line(line, "this is not UTF-8, nor UTF-16 with a byte order mark") from None
    if "\0" in text:
        raise at_line(text.count("\n", 0, text.index("\0")) + 1, "this line has a NUL character")
    if len(text) > MAX_LENGTH:
        raise TooLarge(f"line 1: this is longer than {MAX_LENGTH:,} characters", limit=MAX_LENGTH)
    return text


def detect_format(text: str) -> PlanFormat:
    """Return the format of a text, detected from its content."""
    text = text.removeprefix("\ufeff")
    if not text.lstrip().startswith(("{", "[")):
        return PlanFormat.MERMAID if is_mermaid(text) else PlanFormat.MARKDOWN
    data = read_document(text)
    for form, is_of_form in _JSON_FORMATS.items():
        if is_of_form(data):
            return form
    raise at_line(1, "this JSON is not a tasks.json, an issue of gh or a beads file; set --format")


def read_plan(
    text: str,
    form: PlanFormat | None = None,
    *,
    tag: str | None = None,
    subtasks: bool = True,
    include_done: bool = False,
) -> ImportedPlan:
    """Return the plan in a text. Without `form`, the format is detected from the content."""
    readers: dict[PlanFormat, Callable[[str], ItemList]] = {
        PlanFormat.MARKDOWN: read_markdown,
        PlanFormat.MERMAID: read_mermaid,
        PlanFormat.TASK_MASTER: partial(read_task_master, tag=tag, subtasks=subtasks),
        PlanFormat.BEADS: read_beads,
        PlanFormat.GITHUB: read_github,
    }
    text = text.removeprefix("\ufeff")
    item_list = readers[form or detect_format(text)](text)
    return build_plan(item_list, include_done=include_done)
