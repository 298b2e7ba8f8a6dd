"""Encodings of imported files."""

from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE

import pytest

from waybook.errors import InvalidInput
from waybook.importers.formats import decode


@pytest.mark.parametrize(
    ("mark", "encoding"),
    [(BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be"), (BOM_UTF8, "utf-8")],
)
def test_file_with_a_byte_order_mark_is_decoded(mark: bytes, encoding: str) -> None:
    text = '[{"number": 1, "title": "größer 🚀"}]\r\n'
    assert decode(mark + text.encode(encoding)) == text


def test_broken_utf_16_is_refused_with_a_line_number() -> None:
    with pytest.raises(InvalidInput, match=r"^line 2: this is not UTF-8, nor UTF-16"):
        decode(BOM_UTF16_LE + "a\n".encode("utf-16-le") + b"\x00\xdc\x00")
