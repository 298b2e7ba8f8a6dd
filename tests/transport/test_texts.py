"""Markdown texts in pages."""

from waybook.transport.http.dashboard.texts import document_html, to_rich_text

TABLE = "| a | b |\n| --- | ---: |\n| 1 | 2 |"


def test_markdown_table_in_a_page_scrolls_in_a_box() -> None:
    rich = to_rich_text(TABLE)
    assert rich is not None
    for html in (document_html(TABLE), rich.html):
        assert html.startswith('<div class="scroll" tabindex="0" role="group" aria-label="Table">')
        assert html.rstrip().endswith("</table></div>")
        assert '<td class="right">2</td>' in html


def test_table_tags_within_a_markdown_text_stay_text() -> None:
    assert "<div" not in document_html("A `<table>` and <table> as text.")
