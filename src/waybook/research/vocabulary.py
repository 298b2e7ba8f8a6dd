"""Splits texts into words, and loads the built-in table of word vectors for search."""

import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import as_file, files
from struct import Struct, unpack_from
from types import MappingProxyType
from unicodedata import normalize
from zlib import crc32

_WORD = re.compile(r"[^\W_]+")
_ACCENT = re.compile(r"[\u0300-\u036f]+")
#: Matches characters of scripts without spaces between words. Each of them counts as a word.
_ALONE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003fffd]")


def split_words(text: str) -> list[str]:
    """Return the words of a text, in order.

    >>> split_words("Café au lait: 2 sizes!")
    ['cafe', 'au', 'lait', '2', 'sizes']
    """
    return _WORD.findall(fold_text(text))


def fold_text(text: str) -> str:
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    return _ALONE.sub(r" \g<0> ", _ACCENT.sub("", normalize("NFD", lowered)))


FILE = "words.bin"
HEAD = Struct("<4sHHII")
MAGIC = b"WBWT"
VERSION = 1
ROW_ALIGNMENT = 4096

#: Maximum length of a word that is embedded. Longer strings are keys, hashes or encoded images.
MAX_WORD_LENGTH = 40
_MAX_PREFIX_LENGTH = 20
_MAX_INFIX_LENGTH = 10
BYTE_OFFSET = 128

_ENDINGS = (
    *(("ies", "y"), ("ied", "y"), ("ing", "e"), ("ing", ""), ("ed", "e"), ("ed", "")),
    *(("es", ""), ("es", "e"), ("s", ""), ("ers", "e"), ("ers", ""), ("er", "e"), ("er", "")),
    *(("ly", ""), ("ness", ""), ("ments", ""), ("ment", ""), ("able", ""), ("less", "")),
    *(("ations", "e"), ("ation", "e"), ("isation", "ize"), ("ise", "ize"), ("ised", "ized")),
    *(("ising", "izing"), ("our", "or"), ("ours", "ors"), ("ful", ""), ("ors", "or")),
)
_MIN_STEM_LENGTH = 3
_DOUBLING = frozenset({"ing", "ed", "er", "ers"})


@dataclass(frozen=True, slots=True)
class WordVectors:
    dimensions: int
    #: Row number of each word or word piece. A piece from inside a word begins with `##`.
    numbers: Mapping[str, int]
    scale: tuple[float, ...]
    rows: "mmap.mmap | bytes" = field(repr=False)
    start: int

    def row(self, number: int) -> bytes:
        """Return a row as bytes. Each byte is a vector component plus 128."""
        at = self.start + number * self.dimensions
        return self.rows[at : at + self.dimensions]

    def rows_for_word(self, word: str) -> tuple[int, ...]:
        """Return the table rows for a word.

        This is the row of the word itself, or else of its stem. For an unknown word, these are the
        rows of its pieces.
        """
        number = self.numbers.get(word)
        if number is not None:
            return (number,)
        stem = self.stem(word)
        if stem is not None:
            return (self.numbers[stem],)
        return tuple(self._pieces(word)) or (crc32(word.encode()) % len(self.numbers),)

    def stem(self, word: str) -> str | None:
        """Return the word without its ending if the table contains this stem, else None.

        >>> builtin_word_vectors().stem("outbreaks")
        'outbreak'
        """
        for ending, instead in _ENDINGS:
            if word.endswith(ending):
                bare = word.removesuffix(ending) + instead
                if len(bare) >= _MIN_STEM_LENGTH and bare in self.numbers:
                    return bare
                if ending in _DOUBLING and bare[-2:-1] == bare[-1:] and bare[:-1] in self.numbers:
                    return bare[:-1]
        return None

    def _pieces(self, word: str) -> Iterator[int]:
        """Split a word into the longest known pieces, and yield their rows.

        If a part of the word is in no known piece, yield nothing.
        """
        rows, start, mark, longest = list[int](), 0, "", _MAX_PREFIX_LENGTH
        while start < len(word):
            ends = range(min(len(word), start + longest), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.numbers), None)
            if end is None:
                return
            rows.append(self.numbers[mark + word[start:end]])
            start, mark, longest = end, "##", _MAX_INFIX_LENGTH
        yield from rows


def parse_word_vectors(data: "mmap.mmap | bytes") -> WordVectors:
    magic, version, dimensions, count, length = HEAD.unpack_from(data)
    if (magic, version) != (MAGIC, VERSION):
        raise ValueError("this is not a table of words that this program can read")
    after_scale = HEAD.size + 4 * dimensions
    after_words = after_scale + length
    names = data[after_scale:after_words].decode().split("\n")
    return WordVectors(
        dimensions=dimensions,
        numbers=MappingProxyType(dict(zip(names, range(count), strict=True))),
        scale=unpack_from(f"<{dimensions}f", data, HEAD.size),
        rows=data,
        start=-(-after_words // ROW_ALIGNMENT) * ROW_ALIGNMENT,
    )


@cache
def builtin_word_vectors() -> WordVectors:
    with as_file(files("waybook.research").joinpath(FILE)) as path, path.open("rb") as file:
        return parse_word_vectors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
