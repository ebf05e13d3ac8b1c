"""Strategies for labels, and for expressions that match some of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

LABELS = st.dictionaries(st.sampled_from(["app", "tier", "zone"]), st.sampled_from(["a", "b"]))
EXPRESSIONS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["app", "tier", "zone"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["a", "b", "c"]), min_size=1),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["app", "tier", "zone"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
)
