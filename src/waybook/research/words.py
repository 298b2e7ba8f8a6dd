"""The words of a text, as everything that searches sees them: in lower case, without accents."""

import re
from unicodedata import normalize

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
