"""Decision records: fields at the top, links between records, and the index."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pytest

from project.repository import DOCS, ROOT, headings, read

HEADINGS = ["Context", "Decision", "Consequences"]
HEAD = re.compile(
    r"# (?P<title>\d{4}: .+)\n\n"
    r"- Status: (?P<status>accepted|amended|replaced)\n"
    r"- Date: (?P<date>\d{4}-\d{2}-\d{2})\n"
    r"- Replaces:(?P<replaces>(?: .+|\n    - .+)+)\n"
    r"- Replaced by:(?P<replaced_by>(?: .+|\n    - .+)+)\n\n"
    r"## Context\n"
)
OLDER = re.compile(r"(parts of )?\[(\d{4}: .+)\]\((.+\.md)\)")
NEWER = re.compile(r"\[(\d{4}: .+)\]\((.+\.md)\)(, in part: .+)?")
ROW = re.compile(r"^\| \[(.+)\]\((.+\.md)\) \| (\w+) \| (\S+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Link:
    """Link between two decision records: the newer one replaces the older one or a part of it."""

    title: str
    file: str
    in_part: bool


@dataclass(frozen=True, slots=True)
class Record:
    file: str
    title: str
    status: str
    date: str
    replaces: tuple[Link, ...] = ()
    replaced_by: tuple[Link, ...] = ()


def parse(file: str, text: str) -> Record:
    """Return the fields at the top of a record; raise an error if one is missing or malformed."""
    head = HEAD.match(text)
    assert head is not None, f"{file}: the head is not in the usual form"
    older = [OLDER.fullmatch(item) for item in items(head["replaces"])]
    newer = [NEWER.fullmatch(item) for item in items(head["replaced_by"])]
    assert all([*older, *newer]), f"{file}: a link of the head is not in the usual form"
    return Record(
        file,
        head["title"],
        head["status"],
        head["date"],
        tuple(Link(link[2], link[3], bool(link[1])) for link in older if link),
        tuple(Link(link[1], link[2], bool(link[3])) for link in newer if link),
    )


def items(field: str) -> list[str]:
    """Return the values of a field, which are written as a value, a nested list or `none`."""
    values = field.strip().removeprefix("- ").split("\n    - ")
    return [] if values == ["none"] else values


def records() -> list[Record]:
    pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    return [parse(page.name, page.read_text("utf-8")) for page in pages]


def file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") + ".md"


def problems(all_records: Sequence[Record]) -> Iterator[str]:
    by_file = {record.file: record for record in all_records}
    for record in all_records:
        if record.file != file_name(record.title):
            yield f"{record.file}: the file is not named after its title"
        if record.status != expected_status(record):
            yield f"{record.file}: the status does not match the field Replaced by"
        if any(link.file <= record.file for link in record.replaced_by):
            yield f"{record.file}: the field Replaced by names an older record"
        yield from link_problems(record, by_file)


def link_problems(record: Record, by_file: Mapping[str, Record]) -> Iterator[str]:
    """Yield an error for each linked record that does not exist or does not link back."""
    for link in (*record.replaces, *record.replaced_by):
        other = by_file.get(link.file)
        if other is None or link.title != other.title:
            yield f"{record.file}: {link.file} is missing or has another title"
            continue
        links = other.replaced_by if link in record.replaces else other.replaces
        if Link(record.title, record.file, link.in_part) not in links:
            yield f"{record.file}: {link.file} does not link back"


def expected_status(record: Record) -> str:
    if not record.replaced_by:
        return "accepted"
    return "amended" if all(link.in_part for link in record.replaced_by) else "replaced"


def test_decision_records_have_valid_fields_and_mutual_links() -> None:
    assert list(problems(records())) == []


def test_dates_of_decision_records_parse_and_never_decrease() -> None:
    dates = [date.fromisoformat(record.date) for record in records()]
    assert dates == sorted(dates)


def test_decision_pages_have_context_decision_and_consequences() -> None:
    for record in records():
        assert headings(read("decisions", record.file), 2) == HEADINGS, record.file


def test_decision_records_are_numbered_without_gaps() -> None:
    assert [int(record.file[:4]) for record in records()] == list(range(1, len(records()) + 1))


def test_decision_index_lists_every_record_with_title_status_and_date() -> None:
    rows = ROW.findall(read("decisions", "README.md"))
    assert rows == [(each.title, each.file, each.status, each.date) for each in records()]


def test_dependency_decision_page_lists_every_dependency() -> None:
    [page] = (DOCS / "decisions").glob("0011-*.md")
    block = re.search(
        r"^dependencies = \[\n(.*?)^\]",
        (ROOT / "pyproject.toml").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert block is not None
    text = page.read_text("utf-8")
    assert [name for name in re.findall(r'"([\w-]+)', block[1]) if f"`{name}`" not in text] == []


OLD = Link("0001: Old", "0001-old.md", in_part=True)
NEW = Link("0002: New", "0002-new.md", in_part=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (("amended", NEW), OLD, None),
        (("accepted", NEW), OLD, "0001-old.md: the status does not match the field Replaced by"),
        (("amended", None), OLD, "0001-old.md: the status does not match the field Replaced by"),
        (("amended", NEW), None, "0001-old.md: 0002-new.md does not link back"),
        (("accepted", None), OLD, "0002-new.md: 0001-old.md does not link back"),
        (
            ("amended", Link("0002: Other", "0002-new.md", in_part=True)),
            OLD,
            "0001-old.md: 0002-new.md is missing or has another title",
        ),
        (
            ("amended", NEW),
            Link("0001: Old", "0001-old.md", in_part=False),
            "0002-new.md: 0001-old.md does not link back",
        ),
    ],
)
def test_wrong_status_or_link_of_a_decision_record_is_reported(
    old: tuple[str, Link | None], new: Link | None, problem: str | None
) -> None:
    status, newer = old
    planted = [
        Record("0001-old.md", "0001: Old", status, "2026-11-15", (), (newer,) if newer else ()),
        Record("0002-new.md", "0002: New", "accepted", "2026-11-16", (new,) if new else ()),
    ]
    assert problem is None or problem in list(problems(planted))
    assert problem is not None or not list(problems(planted))
