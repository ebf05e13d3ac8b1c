"""Trees as Go writes them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.schema.fields import as_go_writes

TEMPLATE = "core.v1.PodTemplateSpec"


def test_structs_and_required_lists_are_written_and_fields_are_sorted() -> None:
    template = {
        "spec": {
            "nodeSelector": {"b": "1", "a": "2"},
            "containers": [{"name": "c", "image": "i", "ports": [{"name": "p"}]}],
        },
        "$patch": "replace",
    }
    assert json.dumps(as_go_writes(template, TEMPLATE)) == json.dumps(
        {
            "$patch": "replace",
            "metadata": {},
            "spec": {
                "containers": [
                    {"image": "i", "name": "c", "ports": [{"containerPort": 0, "name": "p"}], "resources": {}}
                ],
                "nodeSelector": {"a": "2", "b": "1"},
            },
        }
    )


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["spec", "containers", "name", "metadata", "x"]), inner, max_size=3
            )
        ),
    )
)
def test_twice_is_once_whatever_it_is(tree: Any) -> None:
    once = as_go_writes(tree, TEMPLATE)
    assert as_go_writes(once, TEMPLATE) == once
