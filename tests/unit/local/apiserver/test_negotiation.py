from __future__ import annotations

import pytest

from kuberth.https.messages import JSON
from kuberth.local.apiserver.http.negotiation import YAML, decode_body, encode, read_body
from kuberth.local.apiserver.status_errors import StatusError


@pytest.mark.parametrize(
    "body, code, message",
    [
        pytest.param(b"{a: " * 20_000, 400, "nested deeper than", id="deep"),
        pytest.param(b"- " * 40_000, 400, "nested deeper than", id="deep-block"),
        pytest.param(b"k: [" + b"1," * 1_400_000 + b"]", 413, "send JSON", id="a-million-values"),
    ],
)
def test_yaml_that_costs_too_much_is_refused(body: bytes, code: int, message: str) -> None:
    with pytest.raises(StatusError, match=message) as caught:
        decode_body(body, YAML)
    assert caught.value.code == code


@pytest.mark.parametrize("entry", ["1", "{}", '"a"'])
def test_json_of_a_hundred_thousand_values_is_refused(entry: str) -> None:
    """Nine hundred thousand empty owner references took minutes to refuse one by one."""
    with pytest.raises(StatusError, match="more than 100000 values") as caught:
        decode_body(b'{"l":[%s]}' % ",".join([entry] * 100_001).encode(), JSON)
    assert caught.value.code == 413


def test_text_with_commas_is_one_value() -> None:
    tree = {"data": {"table.csv": "1,2,3\n" * 200_000}}
    assert decode_body(encode(tree, JSON), JSON) == tree


def test_yaml_means_what_it_means_to_kubernetes() -> None:
    assert decode_body(b"a: 12:30\nb: 0o17\nc: off", YAML) == {"a": "12:30", "b": 15, "c": False}


def test_yaml_goes_out_as_it_would_come_in() -> None:
    tree = {"a": "y", "b": "1:30", "c": "017", "d": [None, True, 1.5]}
    assert decode_body(encode(tree, YAML), YAML) == tree


@pytest.mark.parametrize(
    "body, content_type, found",
    [
        (b"a: 1\nb: {c: 1,\n  c: 2}", YAML, [("b.c", 3)]),
        (b'{"a":[{"b":1,"b":2}]}', JSON, [("a[0].b", None)]),
        (b'{"a":1,"b":{"a":1}}', JSON, []),
    ],
    ids=("yaml", "json", "none"),
)
def test_duplicate_keys_are_found(body: bytes, content_type: str, found: list[object]) -> None:
    read = read_body(body, content_type)
    assert [(each.path, each.value) for each in read.duplicates] == found
