"""A finalizer more, and every other byte as it was."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.client.rest.protobuf_edits import with_finalizer
from kuberth.errors import WireError


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


TYPE_META = field(1, field(1, b"v1") + field(2, b"Thing"))
METADATA = field(1, field(1, b"name") + field(14, b"old"))
SPEC = field(2, b'{"a":  1 }')


def test_the_finalizer_comes_behind_those_that_are_there() -> None:
    """A message that comes twice is merged, so that the object is left as it was and more is added."""
    before = b"k8s\x00" + TYPE_META + field(2, METADATA + SPEC) + field(4, b"application/json")
    added = field(1, field(14, b"new"))
    after = b"k8s\x00" + TYPE_META + field(2, METADATA + SPEC + added) + field(4, b"application/json")
    assert with_finalizer(before, "new") == after


@pytest.mark.parametrize(
    "encoded",
    [
        b"",
        b'{"kind": "Thing"}',
        b"k8s\x00",
        b"k8s\x00" + TYPE_META,
        b"k8s\x00\x08\x01",
        b"k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        b"k8s\x00\x12\x7fshort",
    ],
)
def test_what_is_no_object_is_refused(encoded: bytes) -> None:
    with pytest.raises(WireError):
        with_finalizer(encoded, "new")


@given(st.binary(max_size=64))
def test_no_bytes_break_it(encoded: bytes) -> None:
    with suppress(WireError):
        with_finalizer(b"k8s\x00" + encoded, "new")
