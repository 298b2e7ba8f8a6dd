"""What files are called that are written into a folder, and that none is written over."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from waybook.dag.page import safe_file_name
from waybook.errors import InvalidInput
from waybook.usecases.read_documents import DocumentListItem


def file_names(listed: Sequence[DocumentListItem], order: Sequence[str]) -> Mapping[str, str]:
    """For each document a name without its ending: a folder for the stage, a file in it.

    The author is named, and the lineage and the reviewer where several would share a name.
    """
    folders = {slug: f"{place}-{safe_file_name(slug)}" for place, slug in enumerate(order, start=1)}
    long = Counter(_short(one) for one in listed)
    taken: set[str] = set()
    names: dict[str, str] = {}
    for one in listed:
        parts = [one.document_key, one.model, *(_more(one) if long[_short(one)] > 1 else [])]
        name = f"{folders[one.stage]}/{'.'.join(map(safe_file_name, parts))}"
        names[one.resource_id] = unique_name(name, taken)
    return names


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; capital letters make no difference on some disks."""
    own, number = name, 1
    while own.lower() in taken:
        number += 1
        own = f"{name}-{number}"
    taken.add(own.lower())
    return own


def _short(one: DocumentListItem) -> tuple[str, str, str]:
    return one.stage, one.document_key, one.model


def _more(one: DocumentListItem) -> list[str]:
    begun = one.lineage.rsplit("/", 1)[-1]
    return [f"of-{begun}", *([f"by-{one.reviewer}"] if one.reviewer else [])]


def refuse_to_overwrite(paths: Iterable[Path]) -> None:
    """Let only paths pass where nothing is yet.

    Raises:
        InvalidInput: something is in the way.
    """
    there = [path for path in paths if path.exists()]
    if there:
        more = f" and {len(there) - 1} more are" if len(there) > 1 else " is"
        raise InvalidInput(f"{there[0]}{more} there already; --force writes over them")
