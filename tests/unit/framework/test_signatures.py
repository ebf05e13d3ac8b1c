from __future__ import annotations

from typing import Any

import pytest

from kuberth.cluster.pod_info import PodInfo
from kuberth.framework import signatures
from kuberth.framework.signatures import signer
from kuberth.testing import make_pod


@pytest.mark.parametrize(("labels", "encodings"), [(2, 2), (200, 1)], ids=["short", "long"])
def test_long_signatures_are_made_once_for_a_version_of_the_pod(
    labels: int, encodings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    encode = signatures._encode

    def counting(value: Any) -> bytes:
        made.append(value)
        return encode(value)

    monkeypatch.setattr(signatures, "_encode", counting)
    sign = signer(["metadata.labels"])
    info = PodInfo(make_pod("pod", labels={f"label-{number}": "value" for number in range(labels)}))
    assert sign(info) == sign(info)
    assert len(made) == encodings


def test_each_signer_has_its_own_signature() -> None:
    labels = {f"label-{number}": "value" for number in range(200)}
    info = PodInfo(make_pod("pod", labels=labels, nodeSelector=labels))
    by_labels, by_selector = signer(["metadata.labels"]), signer(["metadata.labels", "spec.node_selector"])
    assert by_labels(info) != by_selector(info)
    other = info.placed_on("node")
    assert by_labels(other) == by_labels(info)
