from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.selectors import Operator, Requirement
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.framework import inputs
from kuberth.framework.inputs import signer
from kuberth.testing import make_pod


@pytest.mark.parametrize(("labels", "encodings"), [(2, 2), (200, 1)], ids=["short", "long"])
def test_long_signatures_are_made_once_for_a_version_of_the_pod(
    labels: int, encodings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    encode = inputs._encode

    def counting(value: Any) -> bytes:
        made.append(value)
        return encode(value)

    monkeypatch.setattr(inputs, "_encode", counting)
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


@pytest.mark.parametrize("length", [1, 200], ids=["short", "long"])
def test_signatures_are_other_ones_when_more_labels_matter(length: int) -> None:
    labels = SelectedLabels()
    sign = signer(["spec.node_selector"], labels=labels)
    selector = {f"label-{number}": "value" for number in range(length)}
    one, other = (
        PodInfo(make_pod(name, labels={"app": name}, nodeSelector=selector)) for name in ("one", "other")
    )
    before = sign(one)
    assert before == sign(other)
    labels.note((Requirement("app", Operator.EQUALS, ("one",)),))
    assert sign(one) != sign(other)
    assert before not in (sign(one), sign(other))


def test_digests_of_signers_that_are_gone_are_not_all_kept() -> None:
    labels = {f"label-{number}": "value" for number in range(200)}
    info = PodInfo(make_pod("pod", labels=labels))
    for _ in range(100):
        signer(["metadata.labels"])(info)
    assert info.digests is not None
    assert len(info.digests) <= 16


def test_read_only_mappings_are_signed_as_others() -> None:
    """The requests of pods without extended resources share one."""
    sign = signer(["info.request.scalars"])
    plain, equal = PodInfo(make_pod("a")), PodInfo(make_pod("b"))
    gpu = PodInfo(make_pod("c", requests={"example.com/gpu": "1"}))
    assert sign(plain) == sign(equal) != sign(gpu)
    assert sign(plain) is not None
