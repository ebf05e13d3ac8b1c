from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from kuberth.api import (
    KINDS,
    CSINode,
    DeviceClass,
    Event,
    ObjectMeta,
    PlainObject,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Wire,
    always,
    convert,
    decode,
    encode,
    register_kind,
    to_builtins,
)
from kuberth.api.core import Event as CoreEvent
from kuberth.api.kinds import REGISTRY, KindInfo, KindRegistry
from kuberth.errors import WireError
from kuberth.framework.cluster_events import Resource

GROUP = "kinds.kuberth.io"

# Looking up


def test_a_kind_is_found_by_whatever_is_at_hand() -> None:
    info = KINDS["CSINode"]
    assert REGISTRY.of(CSINode) is info
    assert REGISTRY.named("CSINode") is info
    assert REGISTRY.find("storage.k8s.io", "v1", "CSINode") is info
    assert REGISTRY.of_event(Resource.CSI_NODE) is info
    assert REGISTRY.of_event("csinodes.v1.storage.k8s.io") is info


def test_what_is_not_there_is_not_found() -> None:
    assert REGISTRY.named("Nothing") is None
    assert REGISTRY.find("", "v2", "Pod") is None
    assert REGISTRY.of_event("csinodes.v2.storage.k8s.io") is None
    with pytest.raises(
        TypeError, match=r"ObjectMeta is not a known kind of the API.*register_kind\(ObjectMeta,"
    ):
        REGISTRY.of(ObjectMeta)


def test_two_kinds_share_the_name_event() -> None:
    assert REGISTRY.of(Event).group == "events.k8s.io"
    assert REGISTRY.of(CoreEvent).group == ""
    assert REGISTRY.named("Event") is REGISTRY.of(Event)
    assert REGISTRY.of_event("Event") is REGISTRY.of(CoreEvent)
    assert REGISTRY.of_event("events.k8s.io/Event") is REGISTRY.of(Event)


@pytest.mark.parametrize(
    "resource",
    sorted(
        set(Resource) - {Resource.ANY, Resource.ASSIGNED_POD, Resource.UNSCHEDULABLE_POD, Resource.POD_GROUP}
    ),
)
def test_every_resource_of_events_is_a_kind(resource: Resource) -> None:
    info = REGISTRY.of_event(resource)
    assert info is not None
    assert info.event_resource == resource


def test_every_row_is_in_the_registry() -> None:
    assert set(KINDS.values()) <= set(REGISTRY)
    for info in KINDS.values():
        assert REGISTRY.of_event(info.event_resource) is info
        assert REGISTRY.of_event(info.full_resource) is info


def test_rules_of_a_cluster_role() -> None:
    assert (
        KINDS["Pod"].rbac_rule("create", subresource="binding")
        == 'apiGroups: [""], resources: ["pods/binding"], verbs: ["create"]'
    )
    assert (
        KINDS["CSINode"].rbac_rule("get", "list")
        == 'apiGroups: ["storage.k8s.io"], resources: ["csinodes"], verbs: ["get", "list"]'
    )


# Registering


class Gadget(Wire):
    api_version: str = always(f"{GROUP}/v1")
    kind: str = always("Gadget")
    metadata: ObjectMeta = ObjectMeta()
    size: int = 0


def test_a_struct_becomes_a_kind() -> None:
    for _ in range(2):
        assert register_kind(Gadget, group=GROUP, version="v1", plural="gadgets") is Gadget
    info = REGISTRY.of(Gadget)
    assert info == KindInfo("Gadget", GROUP, "v1", "gadgets", True, Gadget, registered=True)
    assert info.event_resource == f"gadgets.v1.{GROUP}"
    assert REGISTRY.of_event(f"gadgets.v1.{GROUP}") is info
    assert REGISTRY.of_event(f"{GROUP}/Gadget") is info
    assert (info.path, info.resource_id) == (f"/apis/{GROUP}/v1", f"gadgets.{GROUP}")


def test_registering_a_name_twice_returns_the_same_kind() -> None:
    first = register_kind("Thing", group=GROUP, version="v1", plural="things", namespaced=False)
    again = register_kind("Thing", group=GROUP, version="v1", plural="things", namespaced=False)
    other = register_kind("Thing", group=GROUP, version="v2", plural="things", namespaced=False)
    assert first is again
    assert other is not first
    assert issubclass(first, PlainObject)
    assert not REGISTRY.of(first).namespaced
    # What stands for both versions means the one that came first.
    assert REGISTRY.of_event(f"{GROUP}/Thing") is REGISTRY.of(first)


def test_a_reloaded_module_replaces_its_type() -> None:
    def load() -> type[Wire]:
        class Reloaded(Wire):
            metadata: ObjectMeta = ObjectMeta()

        return register_kind(Reloaded, group=GROUP, version="v1", plural="reloadeds")

    first, second = load(), load()
    assert first is not second
    info = REGISTRY.of_event(f"reloadeds.v1.{GROUP}")
    assert info is not None
    assert info.type is second
    assert REGISTRY.of(first).plural == "reloadeds"


class Bare(Wire):
    name: str = ""


class Demanding(Wire):
    size: int
    metadata: ObjectMeta = ObjectMeta()


class OtherMetadata(Wire):
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class OwnPod(Wire):
    metadata: ObjectMeta = ObjectMeta()


PLACE = {"group": GROUP, "version": "v1", "plural": "wrongs"}


@pytest.mark.parametrize(
    "kind, place, problem",
    [
        pytest.param("wrong", {}, "'wrong' is not a valid kind", id="kind-in-lower-case"),
        pytest.param("", {}, "'' is not a valid kind", id="no-kind"),
        pytest.param(
            "Wrong", {"plural": "Wrongs"}, "'Wrongs' is not a valid plural", id="plural-in-upper-case"
        ),
        pytest.param("Wrong", {"plural": "a/b"}, "'a/b' is not a valid plural", id="plural-with-a-path"),
        pytest.param("Wrong", {"version": ""}, "'' is not a valid version", id="no-version"),
        pytest.param(
            "Wrong", {"version": "v1.example.com"}, "is not a valid version", id="version-with-a-group"
        ),
        pytest.param("Wrong", {"group": "a..b"}, "'a..b' is not a valid group", id="group"),
        pytest.param("Wrong", {"group": "a.b\n"}, "is not a valid group", id="group-with-a-line-break"),
        pytest.param(int, {}, "is not a valid kind in Kubernetes", id="no-struct"),
        pytest.param(Bare, {}, "Bare needs the field `metadata: ObjectMeta`", id="without-metadata"),
        pytest.param(OtherMetadata, {}, "needs the field `metadata: ObjectMeta`", id="other-metadata"),
        pytest.param(Demanding, {}, "Demanding needs a default for size", id="without-a-default"),
        pytest.param(
            OwnPod,
            {"group": "", "plural": "pods"},
            r"pods.v1. is already known as Pod \(namespaced\), held by kuberth.api.pods.Pod; use that type",
            id="taken",
        ),
        pytest.param(Pod, {}, r"Pod already holds pods\.v1\.", id="a-type-of-another-kind"),
    ],
)
def test_what_cannot_be_registered(kind: Any, place: dict[str, str], problem: str) -> None:
    before = list(REGISTRY)
    with pytest.raises(TypeError, match=problem):
        register_kind(kind, **{**PLACE, **place})  # type: ignore[call-overload]  # wrong on purpose
    assert list(REGISTRY) == before


@pytest.mark.parametrize("change", [{"kind": "Other"}, {"namespaced": False}])
def test_contradicting_registrations_of_a_kind_are_refused(change: dict[str, Any]) -> None:
    registry = KindRegistry()
    wanted: dict[str, Any] = {"kind": "Own", "namespaced": True, "type": OwnPod, **PLACE}
    registry.add(KindInfo(**wanted, registered=True))
    with pytest.raises(TypeError, match="is already known as Own"):
        registry.add(KindInfo(**{**wanted, **change}, registered=True))


# Plain objects


Plain = register_kind("Plain", group=GROUP, version="v1", plural="plains")


def test_a_plain_object_is_its_tree() -> None:
    raw = b'{"metadata":{"name":"a","namespace":"n","labels":{"x":"y"}},"spec":{"size":3,"none":null}}'
    plain = decode(Plain, raw)
    assert (plain.metadata.name, plain.metadata.labels) == ("a", {"x": "y"})
    assert plain["spec"] == {"size": 3, "none": None}
    assert plain.get("status", "nothing") == "nothing"
    assert "spec" in plain
    assert json.loads(encode(plain)) == {
        **json.loads(raw),
        "apiVersion": f"{GROUP}/v1",
        "kind": "Plain",
    }
    assert convert(Plain, to_builtins(plain)) == plain
    assert "size" in repr(plain)


def test_a_plain_object_from_nothing() -> None:
    assert decode(Plain, b"{}") == Plain() == {"apiVersion": f"{GROUP}/v1", "kind": "Plain"}
    assert Plain({"metadata": None}).metadata == ObjectMeta()


def test_a_plain_object_with_other_metadata() -> None:
    plain = Plain({"metadata": {"name": "a", "labels": {"x": "y"}, "managedFields": [1]}, "spec": 1})
    other = plain.with_metadata(ObjectMeta(name="b"))
    assert other.metadata == ObjectMeta(name="b")
    assert (other["metadata"], other["spec"]) == ({"name": "b", "managedFields": [1]}, 1)
    assert plain.metadata.name == "a"


@pytest.mark.parametrize(
    "raw, problem",
    [
        (b"[]", "Plain: Expected `object`"),
        (b'"text"', "Plain: Expected `object`"),
        (b'{"metadata":[]}', "Plain: metadata: "),
        (b'{"metadata":{"name":5}}', "Plain: metadata: .*name"),
        (b"{", "not valid JSON"),
    ],
)
def test_a_plain_object_that_cannot_be_read(raw: bytes, problem: str) -> None:
    with pytest.raises(WireError, match=problem):
        decode(Plain, raw)


@pytest.mark.parametrize("kind", [DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice])
def test_kinds_of_device_allocation(kind: type[Any]) -> None:
    info = REGISTRY.of(kind)
    assert (info.group, info.version, info.kind) == ("resource.k8s.io", "v1", kind.__name__)
    assert info.event_resource == f"resource.k8s.io/{kind.__name__}"
