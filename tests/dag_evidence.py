"""What may be known of a run: any evidence at all, and histories as an engine would make them."""

from collections.abc import Mapping

from hypothesis import strategies as st

from waybook.dag.overlay import Evidence
from waybook.dag.recipe import Graph

COUNT = st.sampled_from([0, 0, 1, 2])
EVIDENCE = st.builds(Evidence, closed=st.booleans(), done=COUNT, active=COUNT, failed=COUNT)


def any_evidence(graph: Graph) -> st.SearchStrategy[Mapping[str, Evidence]]:
    """Any evidence about some of the steps, however it may have come about."""
    return st.dictionaries(st.sampled_from(graph.order), EVIDENCE)
