"""Objects as no user would write them: mostly of the right shape, with random values."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kuberth.local.apiserver.schema.fields import fields_of

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(allow_nan=True),
    st.text(max_size=12),
    st.sampled_from(["", "a", "default", "1", "100m", "-1", "x/y", "Node", "Always", "🚢", "\ud800"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@st.composite
def typed(draw: st.DrawFn, type_name: str, depth: int = 0) -> Any:
    """A tree that mostly has the right shape, so that it gets past the decoder; sometimes not."""
    roll = draw(st.integers(0, 19))
    if roll == 0:
        return draw(JSON)
    if type_name.startswith("[]"):
        size = draw(st.integers(0, 2))
        return [draw(typed(type_name[2:], depth + 1)) for _ in range(size)]
    if type_name.startswith("{}"):
        keys = st.sampled_from(["a", "cpu", "example.com/gpu", "", "UPPER/x", "storage", "nodePort"])
        return {key: draw(typed(type_name[2:], depth + 1)) for key in draw(st.sets(keys, max_size=2))}
    fields = fields_of(type_name)
    if fields:
        if depth > 7:
            return {}
        chosen = draw(st.sets(st.sampled_from(sorted(fields)), max_size=4))
        required = {name for name, field in fields.items() if field.required and roll < 17}
        return {name: draw(typed(fields[name].type, depth + 1)) for name in sorted(chosen | required)}
    match type_name:
        case "boolean":
            return draw(st.booleans())
        case "int32" | "int64":
            return draw(st.sampled_from([0, 1, -1, 30, 2**31 - 1, -(2**31), 70_000]))
        case "quantity":
            return draw(st.sampled_from(["1", "100m", "-1", "1Gi", "0", "1e3", 5, "1.5"]))
        case "time" | "microtime":
            return draw(
                st.sampled_from(["2024-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
            )
        case "int-or-string":
            return draw(st.sampled_from([0, 5, -1, "25%", "x", "101%", ""]))
        case "bytes":
            return draw(st.sampled_from(["", "aGk=", "!"]))
    return draw(
        st.sampled_from(
            [
                "",
                "a",
                "default",
                "x",
                "Always",
                "Never",
                "In",
                "Exists",
                "TCP",
                "a.b/c",
                "A_",
                "NoExecute",
                "DoNotSchedule",
                "Indexed",
                "RollingUpdate",
                "v1",
                "Namespaced",
                "widgets",
                "example.com",
                "-",
            ]
        )
    )
