"""Replicas: what is counted step by step is what counting all of them gives."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuberth.local.apiserver.objects import Obj, key_of, labels_of, name_of
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.hollow.controllers.replica_set import Counts, Replicas
from kuberth.local.hollow.informing import Informer
from kuberth.local.hollow.ownership import Claim, controller_of, reference_to
from kuberth.local.hollow.pod_states import is_finished, is_ready
from kuberth.testing import FakeClock
from tests.unit.local.hollow.harness import playing, virtual

OWNER: Obj = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web", "namespace": "default", "uid": "owner"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}},
    },
}


class Pods:
    """As much of an informer as a claim and a count need; changes are noted at once."""

    def __init__(self) -> None:
        self.objects: dict[str, Obj] = {}
        self.leaving: set[str] = set()
        self.broken = False
        self.replicas: Replicas | None = None

    def get(self, key: str) -> Obj | None:
        return self.objects.get(key)

    def by(self, index: str, value: str) -> list[Obj]:
        owned = {key_of(pod): controller_of(pod) for pod in self.objects.values()}
        wanted = [key for key, reference in owned.items() if (reference is None) == (index == "orphan")]
        return [self.objects[key] for key in wanted]

    def is_terminating(self, obj: Obj) -> bool:
        return name_of(obj) in self.leaving

    async def update(self, obj: Obj) -> Obj:
        if self.broken:
            raise StatusError(500, "InternalError", "the store cannot write")
        self.put(obj)
        return obj

    def put(self, pod: Obj) -> None:
        self.objects[key_of(pod)] = pod
        self.note(pod)

    def note(self, pod: Obj) -> None:
        if self.replicas is not None:
            self.replicas.mark_changed(key_of(pod))


def pod(name: str, *, labels: Iterable[str] = ("app", "tier"), ready: bool = False, **more: Any) -> Obj:
    values = {"app": "web", "tier": "front"}
    owners = [reference_to(OWNER)] if more.get("owned", True) else []
    since = more.get("since", "1970-01-01T00:00:00Z")
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": {label: values[label] for label in labels},
            "ownerReferences": owners,
        },
        "spec": {},
        "status": {"phase": more.get("phase", "Running"), "conditions": [condition]},
    }


class Settling(Claim):
    """Counts the pods that were looked at."""

    looked_at: list[str]

    async def adopt_or_release(self, child: Obj) -> Obj | None:
        self.looked_at.append(name_of(child))
        return await super().adopt_or_release(child)


def settling(pods: Pods, owner: Obj = OWNER) -> Settling:
    informer: Informer = pods  # type: ignore[assignment]  # as much of one as is asked for
    claim = Settling(informer, owner, selector=owner["spec"]["selector"])
    claim.looked_at = []
    return claim


def counting(*present: Obj) -> tuple[Pods, Replicas, FakeClock]:
    pods, clock = Pods(), FakeClock()
    informer: Informer = pods  # type: ignore[assignment]  # as much of one as is asked
    pods.replicas = Replicas(informer, clock=clock)
    for each in present:
        pods.put(each)
    return pods, pods.replicas, clock


def recount(pods: Pods) -> Counts:
    """From all pods, as if for the first time."""
    mine = [
        each
        for each in pods.objects.values()
        if controller_of(each) is not None and labels_of(each).get("app") and not is_finished(each)
    ]
    active = [each for each in mine if not pods.is_terminating(each)]
    ready = sum(map(is_ready, active))
    labelled = sum("tier" in labels_of(each) for each in active)
    return Counts(len(active), len(mine) - len(active), labelled, ready, ready)


def test_a_look_goes_over_what_changed() -> None:
    async def main() -> None:
        pods, replicas, _ = counting(*(pod(f"p{each}") for each in range(100)))
        first = settling(pods)
        assert (await replicas.count(first)).active == 100
        assert len(first.looked_at) == 100
        pods.put(pod("p7", ready=True))
        second = settling(pods)
        assert await replicas.count(second) == Counts(100, 0, 100, ready=1, available=1)
        assert second.looked_at == ["p7"]

    asyncio.run(main())


_CHANGES = st.tuples(
    st.sampled_from(("put", "leave", "vanish", "look")),
    st.integers(0, 5),
    st.booleans(),
    st.sampled_from(("Running", "Succeeded", "Pending")),
    st.sampled_from((("app", "tier"), ("app",), ("tier",))),
    st.booleans(),
)


@given(st.lists(_CHANGES, max_size=30))
def test_step_by_step_is_all_at_once(
    changes: list[tuple[str, int, bool, str, tuple[str, ...], bool]],
) -> None:
    async def main() -> None:
        pods, replicas, _ = counting()
        for what, number, ready, phase, labels, owned in changes:
            made = pod(f"p{number}", ready=ready, phase=phase, labels=labels, owned=owned)
            key = key_of(made)
            if what == "put":
                pods.leaving.discard(name_of(made))
                pods.put(made)
            elif what == "leave" and key in pods.objects:
                pods.leaving.add(name_of(made))
                pods.note(made)
            elif what == "vanish" and pods.objects.pop(key, None) is not None:
                pods.leaving.discard(name_of(made))
                pods.note(made)
            else:
                await replicas.count(settling(pods))
        assert await replicas.count(settling(pods)) == recount(pods)
        assert {name_of(each) for each in replicas.active()} == {
            name_of(each)
            for each in pods.objects.values()
            if controller_of(each) and "app" in labels_of(each) and not is_finished(each)
        } - pods.leaving

    asyncio.run(main())


def test_an_orphan_that_could_not_be_adopted_is_tried_again() -> None:
    async def main() -> None:
        pods, replicas, _ = counting(pod("p", owned=False))
        pods.broken = True
        with pytest.raises(StatusError):
            await replicas.count(settling(pods))
        pods.broken = False
        assert (await replicas.count(settling(pods))).active == 1
        assert controller_of(pods.objects["default/p"]) is not None

    asyncio.run(main())


def test_a_ready_pod_becomes_available_though_nothing_about_it_changes() -> None:
    async def main() -> None:
        pods, replicas, clock = counting(pod("p", ready=True), pod("q"))
        owner = {**OWNER, "spec": {**OWNER["spec"], "minReadySeconds": 10}}
        assert await replicas.count(settling(pods, owner)) == Counts(2, 0, 2, ready=1, available=0)
        assert replicas.seconds_to_next == 10
        clock.advance(10)
        late = settling(pods, owner)
        assert await replicas.count(late) == Counts(2, 0, 2, ready=1, available=1)
        assert late.looked_at == ["p"]
        assert replicas.seconds_to_next is None

    asyncio.run(main())


def test_all_pods_are_counted_again_when_the_template_changes() -> None:
    async def main() -> None:
        pods, replicas, _ = counting(pod("p", labels=("app",)), pod("q"))
        assert (await replicas.count(settling(pods))).labelled == 1
        template = {"metadata": {"labels": {"app": "web"}}}
        owner = {**OWNER, "spec": {**OWNER["spec"], "template": template}}
        assert (await replicas.count(settling(pods, owner))).labelled == 2

    asyncio.run(main())


def test_a_pod_with_a_requested_deletion_is_replaced_at_once_and_once() -> None:
    async def main() -> None:
        async with playing() as world:
            template = {
                "metadata": {"labels": {"app": "web"}, "annotations": {"kuberth.dev/stop-seconds": "20"}},
                "spec": {"containers": [{"name": "app", "image": "app"}]},
            }
            spec = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
            metadata = {"name": "web", "namespace": "default"}
            body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
            await world.create(body)
            await world.status("ReplicaSet", "web", readyReplicas=3)
            await world.patch("ReplicaSet", "web", {"spec": {"replicas": 1}})
            await world.status("ReplicaSet", "web", replicas=1, terminatingReplicas=2)
            await world.patch("ReplicaSet", "web", {"spec": {"replicas": 2}})
            await world.status("ReplicaSet", "web", readyReplicas=2, terminatingReplicas=2)
            assert len(await world.all("Pod")) == 4
            await world.status("ReplicaSet", "web", replicas=2, terminatingReplicas=0)
            assert len(await world.all("Pod")) == 2

    virtual(main)
