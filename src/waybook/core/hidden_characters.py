"""Finds hidden characters, which are invisible or change how text is displayed.

Hidden characters that a language or an emoji needs are not reported, such as the joiners inside an
emoji.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import Final

from waybook.json_values import Json

FLAG: Final = "oddCharacters"
KINDS: Final = (
    ("control", "\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"),
    ("bidi", "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"),
    ("zero-width", "\u180e\u200b-\u200d\u2060-\u2064\u206a-\u206f\ufeff"),
    ("annotation", "\ufff9-\ufffb"),
    ("variation", "\ufe00-\ufe0f\U000e0100-\U000e01ef"),
    ("tag", "\U000e0000-\U000e007f"),
    ("surrogate", "\ud800-\udfff"),
)
MAX_NAMES_LISTED: Final = 8
MAX_PATH_LENGTH: Final = 80

_EMOJI: Final = "\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
_ARABIC: Final = "\u0600-\u07ff\u0840-\u08ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc"
_INDIC: Final = "\u0900-\u0dff\u0f00-\u0fff"
_WITHOUT_BLANKS: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_IDEOGRAPH: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
#: The flags of England, Scotland and Wales, which consist of tag characters.
_FLAG: Final = "\U0001f3f4\U000e0067\U000e0062(?:{})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(c)) for c in name) for name in ("eng", "sct", "wls"))
)
#: Characters that a variation selector cannot change, so a selector after them counts as hidden.
_NO_VARIANTS: Final = r"\0-\x22\x24-\x29\x2b-\x2f\x3a-\x7f\s" + "".join(m for _, m in KINDS)
#: Matches sequences in which an invisible character is legitimate.
_FITTING: Final = "|".join(
    (
        _FLAG,
        # A variation selector is legitimate after a symbol, a non-ASCII letter or a keycap base.
        rf"[^{_NO_VARIANTS}][\ufe00-\ufe0f](?:\u200d(?=[{_EMOJI}]))?",
        rf"[{_IDEOGRAPH}][\U000e0100-\U000e01ef]",
        rf"[{_EMOJI}]\u200d(?=[{_EMOJI}])",
        rf"[{_ARABIC}][\u200c\u200d](?=[{_ARABIC}])",
        rf"[{_INDIC}{_WITHOUT_BLANKS}][\u200c\u200d]",
        rf"[{_WITHOUT_BLANKS}]\u200b(?=[{_WITHOUT_BLANKS}])",
    )
)
#: `_PLAIN` has the bytes that are never part of a hidden character. `_ESCAPED` has the beginnings
#: of the JSON escapes for control characters.
_PLAIN: Final = bytes([*b"\t\n\r", *range(0x20, 0x7F)])
_ESCAPED: Final = (rb"\u00", rb"\b", rb"\f")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,31}")


@cache
def _odd() -> re.Pattern[str]:
    return re.compile("[" + "".join(marks for _, marks in KINDS) + "]")


@cache
def _compile_pattern() -> re.Pattern[str]:
    """Return a pattern that finds hidden characters in its named groups.

    A legitimate sequence also matches, but without a named group, and so is skipped.
    """
    kinds = "|".join(f"(?P<k{n}>[{marks}])" for n, (_, marks) in enumerate(KINDS))
    return re.compile(rf"\A\ufeff|(?:{_FITTING})|{kinds}")


def may_contain_hidden(json: bytes) -> bool:
    """Return whether JSON may contain hidden characters. This check is fast, but not exact."""
    # JSON escapes every control character except DEL.
    if json.isascii() and b"\\" not in json and b"\x7f" not in json:
        return False
    return _has_odd(json) or any(escaped in json for escaped in _ESCAPED)


def contains_hidden(text: str) -> bool:
    return _has_odd(text.encode("utf-8", "surrogatepass"))


def _has_odd(utf8: bytes) -> bool:
    rest = utf8.translate(None, _PLAIN)
    return bool(rest) and _odd().search(rest.decode("utf-8", "surrogatepass")) is not None


def count_hidden(text: str) -> dict[str, int]:
    r"""Return the number of hidden characters of each kind in a text.

    >>> (
    ...     count_hidden("Pay \u202eeno on"),
    ...     count_hidden("\u06cc\u200c\u06a9, \U0001f469\u200d\U0001f680"),
    ... )
    ({'bidi': 1}, {})
    """
    if not contains_hidden(text):
        return {}
    counts = Counter(
        match.lastgroup for match in _compile_pattern().finditer(text) if match.lastgroup
    )
    return {kind: counts[f"k{n}"] for n, (kind, _) in enumerate(KINDS) if counts[f"k{n}"]}


def escape_hidden(text: str) -> str:
    r"""Replace each hidden character by its code point number.

    >>> print(escape_hidden("\x1b[31mred"))
    ⟦U+001B⟧[31mred
    """
    return _replaced(text, lambda character: f"⟦U+{ord(character):04X}⟧")


#: Matches the text of HTML between the tags.
_BETWEEN = re.compile(r"(?<=>)[^<]+|\A[^<]+")


def escape_hidden_in_html(html: str) -> str:
    r"""Make hidden characters visible in the text of a page, but not in its tags.

    >>> escaped = escape_hidden_in_html("<p title='\u202e'>a\u202eb</p>")
    >>> escaped == "<p title='\u202e'>a⟦U+202E⟧b</p>"
    True
    """
    return (
        _BETWEEN.sub(lambda text: escape_hidden(text[0]), html) if contains_hidden(html) else html
    )


def replace_hidden(text: str, mark: str) -> str:
    return _replaced(text, lambda _: mark)


def _replaced(text: str, instead: Callable[[str], str]) -> str:
    if not contains_hidden(text):
        return text
    return _compile_pattern().sub(
        lambda match: instead(match[0]) if match.lastgroup else match[0], text
    )


def hidden_by_field(value: Json) -> dict[str, Json]:
    r"""Count hidden characters by field and kind. The key `more` has the number of fields left out.

    >>> hidden_by_field({"steps": [{"title": "a\u200bb"}]})
    {'steps[0].title': {'zero-width': 1}}
    """
    named: dict[str, Json] = {}
    more = 0
    for place, kinds in _walk(value, ""):
        path = place[:MAX_PATH_LENGTH]
        if path in named or len(named) < MAX_NAMES_LISTED:
            named[path] = {**kinds}
        else:
            more += 1
    return {**named, "more": more} if more else named


def _walk(value: Json, path: str) -> Iterator[tuple[str, dict[str, int]]]:
    if isinstance(value, str):
        kinds = count_hidden(value)
        if kinds:
            yield path, kinds
    elif isinstance(value, dict):
        for key, inner in value.items():
            kinds = count_hidden(key)
            # The caller chose the key, and the path is shown to agents, so include the key only if
            # it is a plain identifier.
            name = key if _NAME.fullmatch(key) else "*"
            at = f"{path}.{name}" if path else name
            if kinds:
                yield at, kinds
            yield from _walk(inner, at)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _walk(inner, f"{path}[{number}]")


#: `_TAG` matches the beginning of an HTML tag or of an escaped tag. `_ESCAPED_TAG` matches only the
#: beginning of an escaped tag.
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?])|&(?=(?:amp;)*lt;)")
_ESCAPED_TAG: Final = re.compile(r"&(?:amp;)*lt;")


def inert(text: str) -> str:
    r"""Escape the HTML tags in a text, so that a Markdown viewer shows them as text.

    >>> inert("<script>\x07"), inert("1 < 2 &lt;")
    ('&lt;script>⟦U+0007⟧', '1 < 2 &amp;lt;')
    """
    return _TAG.sub(lambda match: "&lt;" if match[0] == "<" else "&amp;", escape_hidden(text))


def without_escapes(text: str) -> str:
    """Undo `inert`: return the text with its original HTML tags.

    >>> without_escapes(inert("<b>, &lt;b> and &amp;lt;"))
    '<b>, &lt;b> and &amp;lt;'
    """
    return _ESCAPED_TAG.sub(
        lambda match: "<" if match[0] == "&lt;" else match[0].replace("amp;", "", 1), text
    )
