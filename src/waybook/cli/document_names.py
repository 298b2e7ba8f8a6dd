"""What the files of documents are called: by stage, key and author, no two alike."""

from collections import Counter
from collections.abc import Mapping, Sequence

from waybook.dag.page import harmless
from waybook.usecases.read_documents import Listed


def file_names(listed: Sequence[Listed], order: Sequence[str]) -> Mapping[str, str]:
    """For each document a name without its ending: a folder for the stage, a file in it.

    The author is named, and the lineage and the reviewer where several would share a name.
    """
    folders = {slug: f"{place}-{harmless(slug)}" for place, slug in enumerate(order, start=1)}
    long = Counter(_short(one) for one in listed)
    taken: set[str] = set()
    names: dict[str, str] = {}
    for one in listed:
        parts = [one.document_key, one.model, *(_more(one) if long[_short(one)] > 1 else [])]
        name = f"{folders[one.stage]}/{'.'.join(map(harmless, parts))}"
        names[one.resource_id] = _free(name, taken)
    return names


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; capital letters make no difference on some disks."""
    free, number = name, 1
    while free.lower() in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free.lower())
    return free


def _short(one: Listed) -> tuple[str, str, str]:
    return one.stage, one.document_key, one.model


def _more(one: Listed) -> list[str]:
    begun = one.lineage.rsplit("/", 1)[-1]
    return [f"of-{begun}", *([f"by-{one.reviewer}"] if one.reviewer else [])]
