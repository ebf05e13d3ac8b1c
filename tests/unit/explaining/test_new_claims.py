"""The claims that a new pod gets: from its ResourceClaimTemplates, ephemeral volumes and StatefulSet."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace as with_fields

from kuberth.api.core import PersistentVolumeClaim
from kuberth.api.resource import ResourceClaimTemplate
from kuberth.api.storage import StorageClass
from kuberth.api.wire import convert
from kuberth.errors import ConfigError
from kuberth.explaining import Question, explain
from kuberth.explaining.sources import template_pod, with_claims
from kuberth.testing import make_node, make_pod
from tests.unit.plugins.device_objects import exactly, make_class, make_slice


def test_a_new_pod_has_the_claims_of_its_templates() -> None:
    used = [
        {"name": "d", "resourceClaimTemplateName": "one-gpu"},
        {"name": "e", "resourceClaimTemplateName": "none"},
    ]
    template = {
        "metadata": {"namespace": "default", "name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [exactly()]}}},
    }
    objects = [make_node("n1"), make_slice("n1", 1), make_class(), convert(ResourceClaimTemplate, template)]
    new = make_pod("p", uid="u", resourceClaims=used[:1])
    explanation = explain(Question(*with_claims(new, objects)[:2]))
    assert (explanation.verdict, explanation.missing) == ("fits", ())
    (gone,) = explain(Question(*with_claims(make_pod("p", resourceClaims=used), objects)[:2])).missing
    assert gone.name == "default/none"
    there = make_pod("p", uid="u", resourceClaims=used[:1])
    assert with_claims(there, [*objects, there])[:2] == (there, [*objects, there])


STATEFUL: dict[str, Any] = {
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "template": {"spec": {"containers": [{"name": "main"}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"storageClassName": "c"}}],
    },
}


def storage_class(mode: str) -> StorageClass:
    topology = {"key": "zone", "values": ["b"]}
    fields = {"volumeBindingMode": mode, "allowedTopologies": [{"matchLabelExpressions": [topology]}]}
    return convert(StorageClass, {"metadata": {"name": "c"}, "provisioner": "x", **fields})


@pytest.mark.parametrize(
    "storage, feasible, missing, notes",
    [
        pytest.param([storage_class("WaitForFirstConsumer")], ("nb",), (), (), id="binds-where-the-pod-goes"),
        pytest.param(
            [storage_class("Immediate")],
            ("na", "nb"),
            (),
            ("the volume data is bound before the pod is scheduled, and may limit its nodes",),
            id="binds-before",
        ),
        pytest.param([], (), ("StorageClass c",), (), id="no-class"),
    ],
)
def test_the_claims_of_a_stateful_sets_pods(
    storage: list[Any], feasible: tuple[str, ...], missing: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    nodes = [make_node(f"n{zone}", labels={"zone": zone}) for zone in "ab"]
    pod, objects, said = with_claims(template_pod(STATEFUL), [*nodes, *storage])
    answer = explain(Question(pod, objects))
    assert answer.answer.feasible == feasible
    assert tuple(f"{each.kind} {each.name}" for each in answer.missing[:1]) == missing
    assert said == notes


@pytest.mark.parametrize("default", ["true", "false"])
def test_a_new_claim_has_the_default_class(default: str) -> None:
    source = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    wait = storage_class("WaitForFirstConsumer")
    wait = with_fields(wait, metadata=with_fields(wait.metadata, annotations=annotations))
    new = make_pod("p", volumes=[{"name": "v", "ephemeral": source}])
    (claim,) = [obj for obj in with_claims(new, [wait]).objects if isinstance(obj, PersistentVolumeClaim)]
    assert claim.spec.storage_class_name == ("c" if default == "true" else None)


def test_claim_templates_that_are_none() -> None:
    broken = {
        **STATEFUL,
        "spec": {"template": {"spec": {"containers": [{"name": "main"}]}}, "volumeClaimTemplates": "data"},
    }
    with pytest.raises(ConfigError, match=r"StatefulSet db: volumeClaimTemplates: .*Expected `array`"):
        template_pod(broken)
