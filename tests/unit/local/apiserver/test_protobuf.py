"""Protobuf bodies against upstream's own round-trip data: every field of a kind filled, in both forms.

The samples are from k8s.io/api v0.36.4, testdata/HEAD (Apache-2.0).
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.schema.protobuf import decode_object
from kuberth.local.apiserver.status_errors import StatusError

SAMPLES = sorted((Path(__file__).parent / "protobuf_samples").glob("*.pb"))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_upstreams_samples(path: Path) -> None:
    assert decode_object(path.read_bytes()) == json.loads(path.with_suffix(".json").read_text())


def varint(value: int) -> bytes:
    value %= 2**64
    parts = []
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def message(*fields: tuple[int, Any]) -> bytes:
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        else:
            raw = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(raw)) + raw
    return data


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw))


METADATA = (1, message((1, "web"), (3, ""), (5, ""), (7, 0), (8, b"")))
"""As Go writes it: empty strings, zeros and the zero time are there."""


@pytest.mark.parametrize(
    "api_version, kind, raw, tree",
    [
        (
            "apps/v1",
            "Deployment",
            # A pointer to zero replicas stays, an unset minReadySeconds does not.
            message(METADATA, (2, message((1, 0), (5, 0), (6, 0), (7, 0)))),
            {"metadata": {"name": "web"}, "spec": {"replicas": 0, "revisionHistoryLimit": 0}},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            message((2, message((1, message((1, 1), (2, 0), (3, "50%"))), (3, message((1, 0), (2, 0)))))),
            {"spec": {"minAvailable": "50%", "maxUnavailable": 0}},
        ),
        (
            "v1",
            "DeleteOptions",
            message((1, 0), (4, "Background")),
            {
                "gracePeriodSeconds": 0,
                "propagationPolicy": "Background",
            },
        ),
        ("scheduling.k8s.io/v1", "PriorityClass", message((2, -5)), {"value": -5}),
        ("v1", "ConfigMap", message((2, message((1, "a"), (2, "b")))), {"data": {"a": "b"}}),
        ("v1", "ConfigMap", message((99, 7), (2, message((1, "a")))), {"data": {"a": ""}}),
    ],
    ids=("pointers", "int or string", "options", "negative", "map", "unknown field"),
)
def test_by_hand(api_version: str, kind: str, raw: bytes, tree: dict[str, Any]) -> None:
    wanted = {"apiVersion": api_version, "kind": kind, **tree}
    assert decode_object(envelope(api_version, kind, raw)) == wanted


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"k8s\x00",
        envelope("v1", "Nothing", b""),
        envelope("apiextensions.k8s.io/v1", "ConversionReview", b""),
        envelope("v1", "Pod", b"\x0a\x7f"),
        envelope("v1", "Pod", b"\xff" * 11),
        envelope("v1", "Pod", b"\x0b"),
        envelope("v1", "Pod", message((1, 7))),
        envelope("v1", "Pod", message((1, message((1, b"\xff"))))),
        envelope("v1", "Pod", message((1, message((8, message((1, 2**62))))))),
    ],
)
def test_what_is_no_object(data: bytes) -> None:
    with pytest.raises(StatusError) as caught:
        decode_object(data)
    assert caught.value.code == 400


@given(st.binary(max_size=100), st.integers(0, 400), st.sampled_from(SAMPLES))
def test_damaged_bytes_are_refused_or_read(noise: bytes, position: int, path: Path) -> None:
    data = path.read_bytes()
    with contextlib.suppress(StatusError):
        json.dumps(decode_object(data[:position] + noise + data[position:]))
