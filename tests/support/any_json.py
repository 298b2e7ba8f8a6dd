"""Hypothesis strategy for JSON values."""

from typing import Any

from hypothesis import strategies as st

EXACT_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
SCALARS = EXACT_SCALARS | st.floats()


def any_json(*names: str, scalars: st.SearchStrategy[Any] = SCALARS) -> st.SearchStrategy[Any]:
    """Return a strategy for JSON values; `names` are the possible object keys, if given."""
    keys = st.sampled_from(names) if names else st.text(max_size=5)
    return st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=10,
    )
