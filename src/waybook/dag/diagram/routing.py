"""Routes of edges, once gaps, corridors and gutter have their tracks."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from waybook.dag.diagram.coordinates import (
    Gaps,
    VerticalPlacement,
    assign_tracks,
    extent,
    gaps_of,
    track_offset,
)
from waybook.dag.diagram.dimensions import Dimensions
from waybook.dag.diagram.geometry import Route
from waybook.dag.diagram.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Corridors:
    """Tracks below each band and in the gutter, and the resulting total height."""

    #: Top of each band.
    tops: list[int]
    height: int
    #: Height of a source's track below a band.
    along: Mapping[tuple[int, int], int]
    #: Distance of the source's gutter track from the left.
    gutter: Mapping[int, int]
    gutter_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    grid: Grid
    rows: VerticalPlacement
    gaps: Gaps
    corridors: Corridors
    measures: Dimensions

    def left(self, box: int) -> int:
        return self.corridors.gutter_width + self.gaps.columns[self.grid.column(box)]

    def middle(self, item: int) -> int:
        return self.corridors.tops[self.grid.band(item)] + self.rows.middle[item]

    def through(self, source: int, target: int) -> Route:
        """Return the route through the columns between."""
        way = [(self.left(source) + self.measures.box_width, self.middle(source))]
        for item in self.grid.through[source, target][1:-1]:
            left, height = self.left(item), self.middle(item)
            way += [(left, height), (left + self.measures.box_width, height)]
        return (*way, (self.left(target), self.middle(target)))

    def detour(self, source: int, target: int) -> Route:
        """Return the route around the columns."""
        grid, corridors, shift = self.grid, self.corridors, self.corridors.gutter_width
        above, below = grid.band(source), grid.band(target)
        out = shift + self.gaps.exit_x(source, (above, grid.column(source) + 1))
        into = shift + self.gaps.entry_x((target, below > above), (below, grid.column(target)))
        along = corridors.along[source, above]
        way = [(self.left(source) + self.measures.box_width, self.middle(source))]
        way += [(out, self.middle(source)), (out, along)]
        if below > above + 1:
            gutter = corridors.gutter[source]
            way += [(gutter, along), (gutter, corridors.along[source, below - 1])]
        way += [(into, way[-1][1]), (into, self.middle(target))]
        return (*way, (self.left(target), self.middle(target)))


def routes_of(grid: Grid, rows: VerticalPlacement, measures: Dimensions) -> Routes:
    """Assign tracks to all detours."""
    gaps = gaps_of(grid, rows.middle, measures)
    corridors = _corridors(grid, rows, gaps, measures)
    return Routes(grid=grid, rows=rows, gaps=gaps, corridors=corridors, measures=measures)


def _corridors(grid: Grid, rows: VerticalPlacement, gaps: Gaps, measures: Dimensions) -> Corridors:
    met: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    far: dict[int, list[int]] = defaultdict(list)
    for source, target in grid.detours:
        above, below = grid.band(source), grid.band(target)
        into = gaps.entry_x((target, below > above), (below, grid.column(target)))
        met[above][source].append(gaps.exit_x(source, (above, grid.column(source) + 1)))
        met[max(above, below - 1)][source].append(into)
        if below > above + 1:
            far[source] += [above, below - 1]
            met[above][source].append(0)
            met[below - 1][source].append(0)
    tracks = {
        band: assign_tracks({source: extent(places) for source, places in sources.items()})
        for band, sources in met.items()
    }
    gutter, count = assign_tracks({source: extent(bands) for source, bands in far.items()})
    wide = CORRIDOR_MARGIN + track_offset(count, count, measures.pitch) if count else 0
    tops, along, height = _heights(rows, tracks, measures)
    return Corridors(
        tops=tops,
        height=height,
        along=along,
        gutter={
            source: track_offset(track, count, measures.pitch) for source, track in gutter.items()
        },
        gutter_width=wide,
    )


#: Free space next to the tracks in the gutter and in a corridor.
CORRIDOR_MARGIN = 12


def _heights(
    rows: VerticalPlacement,
    tracks: Mapping[int, tuple[Mapping[int, int], int]],
    measures: Dimensions,
) -> tuple[list[int], dict[tuple[int, int], int], int]:
    """Return the top of each band, the heights of the tracks below, and the total height."""
    tops, along, top = list[int](), dict[tuple[int, int], int](), 0
    for band, height in enumerate(rows.heights):
        tops.append(top)
        top += height
        track_of, count = tracks.get(band, ({}, 0))
        for source, track in track_of.items():
            along[source, band] = top + CORRIDOR_MARGIN + track_offset(track, count, measures.pitch)
        last = band == len(rows.heights) - 1
        taken = (
            track_offset(count, count, measures.pitch) + CORRIDOR_MARGIN * (1 if last else 2)
            if count
            else 0
        )
        top += max(taken, 0 if last else measures.band_gap)
    return tops, along, top
