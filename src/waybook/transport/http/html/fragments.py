"""Page fragments, so that only the changed parts of an open page are sent.

A browser names the version of the page that it has, and gets only the fragments that differ. If the
server does not remember that version, it sends everything.
"""

import re
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from markupsafe import Markup

from waybook.dag.diagram.svg import END_MARK, MARK

#: Random text in the marks around fragments, so that no stored text can contain a mark.
_NONCE: Final = secrets.token_hex(8)
_MARK: Final = re.compile(rf"<!--{_NONCE}(?:([+~])([\w-]+)|/)-->")
_VERSION_SLOT: Final = f"{_NONCE}-version"
#: Drawings have other marks, because another process draws them and does not know the random text.
_DRAWN_MARK: Final = re.compile(f"{MARK}([\\w-]+){MARK}")

#: In a request, the page version that the browser has. In a response, the new version.
VERSION_HEADER: Final = "waybook-version"
_DIGEST_BYTES: Final = 8
_SIZE_BYTES: Final = 4
#: Limit for all remembered page versions together.
MAX_REMEMBERED_BYTES: Final = 4 * 1024 * 1024

#: Parts of the HTML that change with time, so the hash leaves them out.
_AGE: Final = re.compile(r"(<time\b[^>]*>)[^<]*")
_VOLATILE_ATTRIBUTE: Final = re.compile(r' data-(?:age|centre)="[^"]*"')


def fragment(name: str) -> Markup:
    """Return the mark that makes the next element, which has the id `name`, a fragment."""
    return Markup("<!--{}+{}-->").format(_NONCE, name)


def end_fragment() -> Markup:
    return Markup("<!--{}/-->").format(_NONCE)


def version_slot() -> str:
    """Return a placeholder that is later replaced with the version of the page part."""
    return _VERSION_SLOT


def mark_drawing(svg: str) -> str:
    """Replace the marks in an SVG drawing with the marks that pages use."""
    marked = _DRAWN_MARK.sub(rf"<!--{_NONCE}~\1-->", svg)
    return marked.replace(END_MARK, f"<!--{_NONCE}/-->")


@dataclass(slots=True)
class _Fragment:
    name: str
    is_drawn: bool = False
    pieces: list["str | _Fragment"] = field(default_factory=list)
    digest: bytes = b""
    size: int = 1

    def html(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.html() for piece in self.pieces)

    def inner(self) -> Iterator["_Fragment"]:
        return (piece for piece in self.pieces if isinstance(piece, _Fragment))

    def walk(self) -> Iterator["_Fragment"]:
        yield self
        for piece in self.inner():
            yield from piece.walk()

    def seal(self, volatile: Sequence[str]) -> None:
        """Compute the hashes of this fragment and of all fragments inside it."""
        for piece in self.inner():
            piece.seal(volatile)
        text = "".join(p if isinstance(p, str) else f"\0{p.name}\0" for p in self.pieces)
        for value in volatile:
            text = text.replace(value, "")
        text = _VOLATILE_ATTRIBUTE.sub("", _AGE.sub(r"\1", text))
        self.digest = blake2b(text.encode("utf-8", "replace"), digest_size=_DIGEST_BYTES).digest()
        self.size = 1 + sum(piece.size for piece in self.inner())

    def outline(self) -> bytes:
        return b"".join(f.digest + f.size.to_bytes(_SIZE_BYTES, "big") for f in self.walk())


class VersionMemory:
    def __init__(self) -> None:
        self._outlines: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0

    def remember(self, part: _Fragment) -> str:
        outline = part.outline()
        version = blake2b(outline, digest_size=_DIGEST_BYTES).hexdigest()
        if version not in self._outlines:
            self._outlines[version] = outline
            self._bytes += len(outline)
        self._outlines.move_to_end(version)
        while self._bytes > MAX_REMEMBERED_BYTES:
            _, dropped = self._outlines.popitem(last=False)
            self._bytes -= len(dropped)
        return version

    def changes_since(self, version: str, part: _Fragment) -> list[_Fragment] | None:
        """Return the changed fragments of a page part, or None if the whole part must be sent."""
        outline = self._outlines.get(version)
        if outline is None:
            return None
        changed = list(_changed(part, outline, 0))
        return None if part in changed else changed


def _changed(new: _Fragment, outline: bytes, place: int) -> Iterator[_Fragment]:
    """Yield the changed fragments, but none inside another changed fragment."""
    width = _DIGEST_BYTES + _SIZE_BYTES
    if outline[place * width : place * width + _DIGEST_BYTES] != new.digest:
        yield new
        return
    # Both versions of the fragment have the same inner fragments in the same order.
    place += 1
    for inner in new.inner():
        yield from _changed(inner, outline, place)
        size_at = place * width + _DIGEST_BYTES
        place += int.from_bytes(outline[size_at : size_at + _SIZE_BYTES], "big")


@dataclass(frozen=True, slots=True)
class RenderedText:
    text: str
    version: str | None = None


def finish_rendering(
    text: str, memory: VersionMemory, *, volatile: Sequence[str], known_version: str | None
) -> RenderedText:
    """Return a page without fragment marks, or only the fragments that changed."""
    if _NONCE not in text:
        return RenderedText(text)
    page = _Fragment("")
    open_fragments, at = [page], 0
    for mark in _MARK.finditer(text):
        open_fragments[-1].pieces.append(text[at : mark.start()])
        at = mark.end()
        if mark[2] is None:
            open_fragments.pop()
            continue
        inner = _Fragment(mark[2], is_drawn=mark[1] == "~")
        open_fragments[-1].pieces.append(inner)
        open_fragments.append(inner)
    page.pieces.append(text[at:])
    for part in page.inner():
        part.seal(volatile)
        changed = memory.changes_since(known_version, part) if known_version else None
        version = memory.remember(part)
        if changed is not None:
            return RenderedText("".join(map(_template, changed)), version)
        part.pieces = [
            piece.replace(_VERSION_SLOT, version) if isinstance(piece, str) else piece
            for piece in part.pieces
        ]
    return RenderedText(page.html())


def _template(changed: _Fragment) -> str:
    """Return a changed fragment in a form that a browser can parse on its own."""
    html = f"<svg>{changed.html()}</svg>" if changed.is_drawn else changed.html()
    return f'<template data-fragment="{changed.name}">{html}</template>'
