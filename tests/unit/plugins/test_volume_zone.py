from __future__ import annotations

from typing import Any

import pytest

from kuberth.framework.cluster_events import Action, Hint
from kuberth.framework.status import Code
from kuberth.testing.factories import make_node
from tests.unit.plugins.harness import assert_views_agree, evaluator, hint
from tests.unit.plugins.volume_objects import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    ZONE,
    ephemeral,
    make_claim,
    make_class,
    make_volume,
    pod_with,
)

PLUGIN = "VolumeZone"
ELSEWHERE = ("node(s) had no available volume zone",)


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="other zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of its zones"),
        pytest.param({ZONE: "a__ b"}, {ZONE: "b"}, True, id="spaces around a zone"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="an empty zone makes the label say nothing"),
        pytest.param({ZONE: ""}, {ZONE: "b"}, True, id="an empty label says nothing"),
        pytest.param({ZONE: "a"}, {}, True, id="a node without zones"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node with a region but no zone"),
        pytest.param({}, {ZONE: "a"}, True, id="a volume without zones"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="old label, node has the new one"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "b"}, False, id="old label, node has another zone"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="the node's old label counts"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="new label, node has only the old one"),
        pytest.param({BETA_REGION: "r"}, {REGION: "r"}, True, id="old region label"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="zone fits, region not"),
    ],
)
def test_a_volume_pins_its_pod_to_its_zone(volume: dict[str, str], node: dict[str, str], fits: bool) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("n", labels=node),
        make_claim("c", volume="v"),
        make_volume("v", labels=volume),
    )
    answer = judge.evaluate(pod_with("c"))
    assert bool(answer.feasible) is fits
    if not fits:
        status = answer.rejections["n"]
        assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ELSEWHERE)


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        pytest.param("", "PersistentVolumeClaim had no name", id="no name"),
        pytest.param("gone", 'persistentvolumeclaim "gone" not found', id="no such claim"),
        pytest.param("lost", 'persistentvolume "gone" not found', id="no such volume"),
        pytest.param(
            "classless", "PersistentVolumeClaim had no pv name and storageClass name", id="unbound, no class"
        ),
        pytest.param("unknown", 'storageclass.storage.k8s.io "gone" not found', id="unbound, no such class"),
        pytest.param(
            "modeless", 'VolumeBindingMode not set for StorageClass "modeless"', id="unbound, no mode"
        ),
        pytest.param("late", "PersistentVolume had no name", id="unbound, should be bound"),
    ],
)
def test_a_claim_that_is_not_ready(claim: str, reason: str) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("n"),
        make_class("now", mode="Immediate"),
        make_class("modeless", mode=None),
        make_claim("lost", volume="gone"),
        make_claim("classless", storage_class=None),
        make_claim("unknown", storage_class="gone"),
        make_claim("modeless", storage_class="modeless"),
        make_claim("late", storage_class="now"),
    )
    pre_filter = judge.evaluate(pod_with(claim)).pre_filter
    assert pre_filter is not None
    assert (pre_filter.code, pre_filter.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_waiting_claims_and_ephemeral_volumes_are_no_concern() -> None:
    judge = evaluator(PLUGIN, make_node("n", labels={ZONE: "a"}), make_class(), make_claim("c"))
    assert judge.evaluate(pod_with("c", ephemeral("e"))).feasible == ("n",)


@pytest.mark.parametrize("volume", ["v", "gone"])
def test_filter_finds_out_by_itself_without_pre_filter(volume: str) -> None:
    judge = evaluator(
        PLUGIN,
        make_node("a", labels={ZONE: "a"}),
        make_node("b", labels={ZONE: "b"}),
        make_claim("c", volume=volume),
        make_volume("v", labels={ZONE: "a"}),
        disabled_at=("preFilter",),
    )
    assert judge.evaluate(pod_with("c")).feasible == (("a",) if volume == "v" else ())


CLAIM = ("PersistentVolumeClaim", Action.UPDATE)
VOLUME = ("PersistentVolume", Action.UPDATE)


@pytest.mark.parametrize(
    ("event", "old", "new", "expected"),
    [
        pytest.param(
            ("storage.k8s.io/StorageClass", Action.ADD), None, make_class(), Hint.QUEUE, id="a waiting class"
        ),
        pytest.param(
            ("storage.k8s.io/StorageClass", Action.ADD),
            None,
            make_class(mode="Immediate"),
            Hint.SKIP,
            id="a class that binds at once",
        ),
        pytest.param(
            ("storage.k8s.io/StorageClass", Action.UPDATE), make_class(), make_class(), None, id="not asked"
        ),
        pytest.param(CLAIM, make_claim("c"), make_claim("c", volume="v"), Hint.QUEUE, id="its claim"),
        pytest.param(CLAIM, make_claim("d"), make_claim("d", volume="v"), Hint.SKIP, id="another claim"),
        pytest.param(
            CLAIM,
            make_claim("c"),
            make_claim("c", namespace="elsewhere"),
            Hint.SKIP,
            id="a claim of another namespace",
        ),
        pytest.param(CLAIM, make_claim("p-e"), make_claim("p-e"), Hint.SKIP, id="an ephemeral volume's"),
        pytest.param(("PersistentVolume", Action.ADD), None, make_volume("v"), Hint.QUEUE, id="a new volume"),
        pytest.param(
            VOLUME,
            make_volume("v", labels={ZONE: "a"}),
            make_volume("v", labels={ZONE: "b"}),
            Hint.QUEUE,
            id="a volume moved",
        ),
        pytest.param(
            VOLUME,
            make_volume("v", labels={ZONE: "a__b"}),
            make_volume("v", labels={ZONE: "b__a", "x": "y"}),
            Hint.SKIP,
            id="a volume in the same zones",
        ),
        pytest.param(VOLUME, None, None, Hint.QUEUE, id="nonsense"),
    ],
)
def test_hints(event: tuple[str, Action], old: Any, new: Any, expected: Hint | None) -> None:
    judge = evaluator(PLUGIN, make_node("n"))
    assert hint(judge, pod_with("c", ephemeral("e")), event, old, new) is expected


def test_views_agree() -> None:
    judge = evaluator(
        PLUGIN,
        *(make_node(f"n{i}", labels={ZONE: "abc"[i % 3]}) for i in range(5)),
        make_node("unzoned"),
        make_claim("c", volume="v"),
        make_claim("d", volume="w"),
        make_volume("v", labels={BETA_ZONE: "a__b"}),
        make_volume("w", labels={ZONE: "b__c"}),
    )
    pod = pod_with("c", "d")
    assert_views_agree(judge, PLUGIN, pod)
    assert judge.evaluate(pod).feasible == ("n1", "n4", "unzoned")
