from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.text.cbor import write_cbor

HEAD = b"\xd9\xd9\xf7"

KUBE_SCHEDULER_SAID = bytes.fromhex(
    "d9d9f7a7476d657373616765586d6f6e6c792074686520666f6c6c6f77696e67206d6564696120747970657320617265"
    "2061636365707465643a206170706c69636174696f6e2f6a736f6e2c206170706c69636174696f6e2f79616d6c2c2074"
    "6578742f706c61696e2c206170706c69636174696f6e2f63626f7246726561736f6e4d4e6f7441636365707461626c65"
    "44636f646519019644"
    "6b696e64465374617475734a61706956657273696f6e427631486d65746164617461a04673746174757347"
    "4661696c757265"
)
"""What v1.36.4 answered to `Accept: application/cbor` at /statusz, with CBORServingAndStorage on."""


def test_a_document_of_kube_scheduler() -> None:
    types = "application/json, application/yaml, text/plain, application/cbor"
    tree = {
        "message": f"only the following media types are accepted: {types}",
        "reason": "NotAcceptable",
        "code": 406,
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
    }
    assert write_cbor(tree) == KUBE_SCHEDULER_SAID


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (255, "18ff"),
        (256, "190100"),
        (65536, "1a00010000"),
        (2**32, "1b0000000100000000"),
        (2**64 - 1, "1bffffffffffffffff"),
        (-1, "20"),
        (-100, "3863"),
        (False, "f4"),
        (True, "f5"),
        (None, "f6"),
        ("", "40"),
        ("ü", "42c3bc"),
        ([1, [2, 3]], "8201820203"),
        ({"a": 1, "b": [True]}, "a2416101416281f5"),
    ],
    ids=str,
)
def test_items_of_the_standard(value: Any, encoded: str) -> None:
    """Examples of RFC 8949, appendix A, with byte strings for texts."""
    assert write_cbor(value) == HEAD + bytes.fromhex(encoded)


@pytest.mark.parametrize("value", [1.5, b"x", 2**64, object()], ids=["float", "bytes", "too-large", "object"])
def test_what_has_no_form(value: object) -> None:
    with pytest.raises(TypeError):
        write_cbor({"key": [value]})


def read(data: bytes) -> Any:
    value, rest = _read(data.removeprefix(HEAD))
    assert not rest
    return value


def _read(data: bytes) -> tuple[Any, bytes]:
    major, number, data = data[0] >> 5, data[0] & 31, data[1:]
    if major == 7:
        return {20: False, 21: True, 22: None}[number], data
    if number >= 24:
        size = 1 << number - 24
        number, data = int.from_bytes(data[:size]), data[size:]
    if major < 2:
        return (number if major == 0 else -1 - number), data
    if major == 2:
        return data[:number].decode(), data[number:]
    items = []
    for _ in range(number * (2 if major == 5 else 1)):
        item, data = _read(data)
        items.append(item)
    return (items if major == 4 else dict(zip(items[::2], items[1::2], strict=True))), data


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_what_is_written_can_be_read(tree: Any) -> None:
    assert read(write_cbor(tree)) == tree
