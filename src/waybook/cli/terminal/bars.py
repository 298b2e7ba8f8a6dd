"""Status colors, and a progress bar with one segment per status, for terminals.

Each status has an icon, a word and a color, so that nothing depends on color alone.
"""

from collections.abc import Mapping

from rich.text import Text

from waybook.cli.terminal.rows import style_of
from waybook.core.shown import LOOKS, Shown, shown


def status_text(status: str | None, failed: int = 0) -> Text:
    """Return mark and word of a state, with the number of failed parts if it is not failed."""
    state = shown(status)
    text = Text(f"{LOOKS[state].symbol} {LOOKS[state].word}", style_of(state), no_wrap=True)
    if failed and state is not Shown.FAILED:
        text.append(f", {failed} failed", style="red")
    return text


#: Each segment has its own character, so that the bar is readable without color.
_GLYPHS = {
    Shown.DONE: "█",
    Shown.SKIPPED: "▓",
    Shown.FAILED: "▚",
    Shown.NEEDS_YOU: "▞",
    Shown.STALLED: "▒",
    Shown.RUNNING: "▒",
    Shown.TODO: "░",
}


def segmented_bar(counts: Mapping[Shown, int], width: int) -> Text:
    """Return a progress bar of this width. Each state has a segment, sized by its share.

    >>> segmented_bar({Shown.DONE: 1, Shown.TODO: 3}, 8).plain
    '██░░░░░░'
    """
    bar = Text(no_wrap=True)
    for state, cells in cell_counts(counts, width).items():
        bar.append(_GLYPHS[state] * cells, style=style_of(state).removeprefix("bold "))
    return bar


def counts_of(counts: Mapping[str, int]) -> dict[Shown, int]:
    return {Shown(state): number for state, number in counts.items()}


def with_failed(done: str, failed: int) -> Text:
    text = Text(done)
    return text.append(f", {failed} failed", style="red") if failed else text


def bar_line(label: str, counts: Mapping[Shown, int], percent: int, width: int) -> Text:
    share = f"  {percent} %"
    room = max(4, min(60, width - len(label) - len(share)))
    return Text.assemble((label, "bold"), segmented_bar(counts, room), (share, "bold"))


def cell_counts(counts: Mapping[Shown, int], width: int) -> dict[Shown, int]:
    """Return how many cells of the bar each state gets: at least one, and `width` in total.

    >>> list(cell_counts({Shown.DONE: 99, Shown.FAILED: 1}, 10).values())
    [9, 1]
    """
    present = {state: counts[state] for state in _GLYPHS if counts.get(state)}
    if rest := sum(n for state, n in counts.items() if state not in present):
        present[Shown.TODO] = rest + present.get(Shown.TODO, 0)
    total = sum(present.values())
    if not total:
        return {Shown.TODO: width}
    cells = {status: max(1, width * count // total) for status, count in present.items()}
    by_need = sorted(present, key=lambda s: width * present[s] / total - cells[s], reverse=True)
    while by_need and sum(cells.values()) != width:
        missing = width - sum(cells.values())
        if missing > 0:
            cells[by_need[0]] += 1
            by_need = [*by_need[1:], by_need[0]]
        elif max(cells.values()) > 1:
            cells[max(cells, key=lambda status: cells[status])] -= 1
        else:
            break
    return cells


def status_counts(counts: Mapping[Shown, int], width: int) -> Text:
    worded = Text("   ").join(_counted(counts, words=True))
    if worded.cell_len <= width:
        return worded
    brief = Text("  ").join(_counted(counts, words=False))
    brief.no_wrap, brief.overflow = True, "ellipsis"
    return brief


def _counted(counts: Mapping[Shown, int], *, words: bool) -> list[Text]:
    parts = []
    for status in LOOKS:
        if counts.get(status):
            look = LOOKS[status]
            word = f" {look.word.lower()}" if words else ""
            parts.append(Text(f"{look.symbol} {counts[status]}{word}", style_of(status)))
    return parts
