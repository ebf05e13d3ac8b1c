"""A core on an in-memory store, on a loop whose time costs nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

import pytest

from kuberth.clock import NANOSECONDS, VirtualTimeLoop
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs.core import Core

T = TypeVar("T")


class FixedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1_700_000_000

    def now_ns(self) -> int:
        return self.seconds * NANOSECONDS


class Rig:
    """A core, its store and its clock."""

    def __init__(self, core: Core, store: RevisionStore, clock: FixedClock) -> None:
        self.core = core
        self.store = store
        self.clock = clock

    async def pod(self, name: str = "p", *, bound: str = "", **spec: Any) -> Obj:
        pod = await self.core.create("pods", make_pod(name, **spec), namespace="default")
        if bound:
            await self.bind(name, bound)
            pod = await self.core.get("pods", name, namespace="default")
        return pod

    async def bind(self, name: str, node: str, **metadata: Any) -> Obj:
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return await self.core.create("pods", body, namespace="default", name=name, subresource="binding")


def run(test: Callable[[Rig], Awaitable[T]], *, feature_gates: Mapping[str, bool] | None = None) -> T:
    import asyncio

    async def main() -> T:
        store = await RevisionStore.open(None)
        clock = FixedClock()
        try:
            core = Core(store, clock=clock, feature_gates=feature_gates)
            await store.durable(7)
            return await test(Rig(core, store, clock))
        finally:
            await store.close()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main())


def make_pod(name: str = "p", **spec: Any) -> Obj:
    labels = spec.pop("labels", None)
    metadata: Obj = {"name": name} | ({"labels": labels} if labels else {})
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def make_deployment(name: str = "web", **spec: Any) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": make_pod()["spec"]}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


async def refused(attempt: Awaitable[Any], code: int) -> StatusError:
    """The refusal this attempt meets, which must have this code."""
    with pytest.raises(StatusError) as caught:
        await attempt
    assert caught.value.code == code, str(caught.value)
    return caught.value
