"""The words of a text, as everything that searches sees them: in lower case, without accents.

The table of words: a row of numbers for each word or piece of one, and how words are spelled.

Made by `tools/distil_embeddings.py` from a sentence transformer, shipped with the package, and
mapped into memory when it is first asked for: of its eleven megabytes only the rows that are
looked at are ever read. The rows stand in order of frequency.
"""

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
#: Scripts that put no space between words: each character stands for itself.
_ALONE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003fffd]")


def split_words(text: str) -> list[str]:
    """The words, in order.

    >>> split_words("Café au lait: 2 sizes!")
    ['cafe', 'au', 'lait', '2', 'sizes']
    """
    return _WORD.findall(fold_text(text))


def fold_text(text: str) -> str:
    """The text in lower case and without accents; its length may change."""
    lowered = text.lower()
    if lowered.isascii():
        return lowered
    return _ALONE.sub(r" \g<0> ", _ACCENT.sub("", normalize("NFD", lowered)))


FILE = "words.bin"
HEAD = Struct("<4sHHII")
MAGIC = b"WBWT"
VERSION = 1
ROW_ALIGNMENT = 4096

#: Longer ones are keys, hashes and encoded pictures.
MAX_WORD_LENGTH = 40
#: The longest there are in the table: at the beginning of a word, and within one.
MAX_PREFIX_LENGTH = 20
MAX_INFIX_LENGTH = 10
#: What is added to each number of a row to make it a byte.
BYTE_OFFSET = 128

#: What an English word can end in, and what may stand there instead in the table.
_ENDINGS = (
    *(("ies", "y"), ("ied", "y"), ("ing", "e"), ("ing", ""), ("ed", "e"), ("ed", "")),
    *(("es", ""), ("es", "e"), ("s", ""), ("ers", "e"), ("ers", ""), ("er", "e"), ("er", "")),
    *(("ly", ""), ("ness", ""), ("ments", ""), ("ment", ""), ("able", ""), ("less", "")),
    *(("ations", "e"), ("ation", "e"), ("isation", "ize"), ("ise", "ize"), ("ised", "ized")),
    *(("ising", "izing"), ("our", "or"), ("ours", "ors"), ("ful", ""), ("ors", "or")),
)
_SHORTEST_STEM = 3
_DOUBLING = frozenset({"ing", "ed", "er", "ers"})


@dataclass(frozen=True, slots=True)
class WordVectors:
    dimensions: int
    #: The number of each word's row; pieces that go on within a word begin with `##`.
    numbers: Mapping[str, int]
    #: What one step of each number is worth.
    scale: tuple[float, ...]
    rows: "mmap.mmap | bytes" = field(repr=False)
    start: int

    def row(self, number: int) -> bytes:
        """The numbers of a row, each shifted up by 128 and as a byte."""
        at = self.start + number * self.dimensions
        return self.rows[at : at + self.dimensions]

    def rows_for_word(self, word: str) -> tuple[int, ...]:
        """The rows a word is made of: its own, its stem's, or those of its pieces.

        A word in letters the table does not know gets one row by chance, always the same, so
        that at least it finds itself.
        """
        number = self.numbers.get(word)
        if number is not None:
            return (number,)
        stem = self.stem(word)
        if stem is not None:
            return (self.numbers[stem],)
        return tuple(self._pieces(word)) or (crc32(word.encode()) % len(self.numbers),)

    def stem(self, word: str) -> str | None:
        """The word without its ending, if the table has that.

        >>> builtin_word_vectors().stem("outbreaks")
        'outbreak'
        """
        for ending, instead in _ENDINGS:
            if word.endswith(ending):
                bare = word.removesuffix(ending) + instead
                if len(bare) >= _SHORTEST_STEM and bare in self.numbers:
                    return bare
                if ending in _DOUBLING and bare[-2:-1] == bare[-1:] and bare[:-1] in self.numbers:
                    return bare[:-1]
        return None

    def _pieces(self, word: str) -> Iterator[int]:
        """The longest pieces first; nothing of a word in which a piece is unknown."""
        found, start, mark, longest = list[int](), 0, "", MAX_PREFIX_LENGTH
        while start < len(word):
            ends = range(min(len(word), start + longest), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.numbers), None)
            if end is None:
                return
            found.append(self.numbers[mark + word[start:end]])
            start, mark, longest = end, "##", MAX_INFIX_LENGTH
        yield from found


def parse_word_vectors(data: "mmap.mmap | bytes") -> WordVectors:
    """Read a table from its bytes.

    Raises:
        ValueError: this is no table, or one of another time.
    """
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
    """The table this package carries, mapped into memory."""
    with as_file(files("waybook.research").joinpath(FILE)) as path, path.open("rb") as file:
        return parse_word_vectors(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
