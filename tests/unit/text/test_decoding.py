from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from kuberth.text.decoding import BROKEN, Decoder


class Inner(Struct, frozen=True, kw_only=True, rename="camel"):
    some_name: str
    weight: Annotated[int, Meta(ge=0)] = 1


class Sample(Struct, frozen=True, kw_only=True, rename="camel"):
    count: int = 0
    ratio: float = 0.0
    flag: bool = False
    period: timedelta = timedelta(0)
    secret: bytes = b""
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    names: list[str] = []
    labels: dict[str, int] = {}
    any_mapping: Mapping[str, str] = {}
    mode: Literal["fast", "slow"] = "fast"
    either: int | str = 0
    pair: tuple[int, str] = (0, "")
    anything: Any = None


KNOWN = (
    "count, ratio, flag, period, secret, inner, many, names, labels, anyMapping, mode, either, pair, anything"
)


class Ordered(Struct, frozen=True, kw_only=True):
    low: int = 0
    high: int = 10

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low must not be above high")


def decode(tree: Any, as_type: Any = Sample) -> tuple[Any, list[str]]:
    decoder = Decoder()
    value = decoder.decode(tree, as_type)
    return value, [str(error) for error in decoder.errors]


def test_everything_right() -> None:
    tree = {
        "count": 3,
        "ratio": 2,
        "flag": True,
        "period": "1m",
        "secret": "aGk=",
        "inner": {"someName": "x"},
        "many": [{"someName": "y", "weight": 2}],
        "names": ["a"],
        "labels": {"a": 1},
        "anyMapping": {"a": "b"},
        "mode": "slow",
        "either": "x",
        "pair": [1, "x"],
        "anything": [{}],
    }
    assert decode(tree) == (
        Sample(
            count=3,
            ratio=2.0,
            flag=True,
            period=timedelta(minutes=1),
            secret=b"hi",
            inner=Inner(some_name="x"),
            many=(Inner(some_name="y", weight=2),),
            names=["a"],
            labels={"a": 1},
            any_mapping={"a": "b"},
            mode="slow",
            either="x",
            pair=(1, "x"),
            anything=[{}],
        ),
        [],
    )


def test_null_is_the_same_as_nothing() -> None:
    assert decode({"count": None, "many": None, "inner": None, "period": None}) == (Sample(), [])


@pytest.mark.parametrize(
    "tree, error",
    [
        pytest.param([], "expected a mapping, got an empty list", id="struct"),
        pytest.param({"count": "x"}, 'count: expected an integer, got "x"', id="int"),
        pytest.param({"count": True}, "count: expected an integer, got true", id="bool-is-no-int"),
        pytest.param({"count": 1.5}, "count: expected an integer, got 1.5", id="float-is-no-int"),
        pytest.param({"ratio": "1"}, 'ratio: expected a number, got "1"', id="float"),
        pytest.param({"flag": 1}, "flag: expected true or false, got 1", id="bool"),
        pytest.param({"period": 5}, 'period: expected a duration such as "15s", got 5', id="duration-number"),
        pytest.param(
            {"period": "5"},
            'period: expected a duration such as "15s", "1m30s" or "500ms", got "5"',
            id="duration-text",
        ),
        pytest.param({"secret": "***"}, "secret: expected base64 text", id="bytes-are-not-shown"),
        pytest.param({"inner": {}}, "inner.someName: required, but missing", id="required"),
        pytest.param(
            {"inner": {"someName": None}}, "inner.someName: required, but missing", id="required-null"
        ),
        pytest.param({"many": {}}, "many: expected a list, got an empty mapping", id="list"),
        pytest.param(
            {"many": [{"someName": "x"}, {"someName": "y", "weight": -1}]},
            "many[1].weight: expected an integer >= 0, got -1",
            id="constraint",
        ),
        pytest.param({"names": ["a", 1]}, "names[1]: expected a string, got 1", id="item"),
        pytest.param({"labels": []}, "labels: expected a mapping, got an empty list", id="mapping"),
        pytest.param({"labels": {"a.b": "x"}}, 'labels["a.b"]: expected an integer, got "x"', id="odd-key"),
        pytest.param({"mode": "quick"}, 'mode: expected one of "fast", "slow", got "quick"', id="literal"),
        pytest.param({"either": []}, "either: expected `int | str`, got an empty list", id="union"),
        pytest.param({"cuont": 1}, 'cuont: unknown field; did you mean "count"?', id="unknown-with-hint"),
        pytest.param({"zzz": 1}, f"zzz: unknown field; known are {KNOWN}", id="unknown"),
        pytest.param(
            {"some_name": 1},
            f"some_name: unknown field; known are {KNOWN}",
            id="python-name-is-not-the-field",
        ),
    ],
)
def test_one_error(tree: Any, error: str) -> None:
    assert decode(tree)[1] == [error]


def test_every_error_is_found() -> None:
    tree = {"count": "x", "many": [{"someNam": "y"}, 3, {"someName": 4, "weight": "x"}], "zzz": 1}
    value, errors = decode(tree)
    # Defaults stand in for what is wrong, so that the rest can be validated.
    assert (value.count, value.many) == (0, ())
    assert errors == [
        f"zzz: unknown field; known are {KNOWN}",
        'count: expected an integer, got "x"',
        'many[0].someNam: unknown field; did you mean "someName"?',
        "many[0].someName: required, but missing",
        "many[1]: expected a mapping, got 3",
        "many[2].someName: expected a string, got 4",
        'many[2].weight: expected an integer, got "x"',
    ]


def test_an_unknown_field_breaks_nothing_else() -> None:
    assert decode({"count": 3, "zzz": 1})[0] == Sample(count=3)


def test_a_struct_may_refuse_its_fields_together() -> None:
    assert decode({"low": 3, "high": 1}, Ordered) == (BROKEN, ["low must not be above high"])


def test_a_field_type_may_depend_on_its_neighbour() -> None:
    class Tagged(Struct, kw_only=True):
        kind: str
        body: Any = None

    def field_type(struct: type, field: str, tree: Mapping[str, Any]) -> Any:
        return Inner if struct is Tagged and field == "body" and tree.get("kind") == "inner" else None

    decoder = Decoder(field_type=field_type)
    assert decoder.decode({"kind": "inner", "body": {"someName": "x"}}, Tagged).body == Inner(some_name="x")
    assert decoder.decode({"kind": "other", "body": {"x": 1}}, Tagged).body == {"x": 1}
    assert decoder.errors == []
    assert decoder.decode({"kind": "inner"}, Tagged) is BROKEN
    assert [str(error) for error in decoder.errors] == ["body.someName: required, but missing"]
