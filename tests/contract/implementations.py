"""The implementations under contract, each as a cluster in which a test has a namespace to itself.

In: the name of one. Out: `run(scenario)`, which gives the scenario a `Subject` and waits for its end, on
virtual time where no socket is involved.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kuberth.api import Namespace, Node, ObjectMeta, Pod
from kuberth.client.fencing import FencedApi
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.client.protocol import Api
from kuberth.clock import LoopClock, SystemClock, run_in_virtual_time
from kuberth.errors import AlreadyExistsError, NotFoundError
from kuberth.local.apiserver.http.credentials import kubeconfig
from kuberth.local.apiserver.http.server import HttpServer
from kuberth.local.apiserver.store.store import RevisionStore
from kuberth.local.apiserver.verbs import reading
from kuberth.local.apiserver.verbs.core import Core
from kuberth.local.in_process import InProcessApi
from kuberth.testing import MemoryApi
from tests.contract.custom_kinds import DEFINITIONS, Planet, Widget
from tests.e2e.control_plane import ADMIN, ControlPlane
from tests.unit.local.apiserver.harness import shared_credentials

BOUND_SECONDS = 240.0
_names = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Subject:
    """One implementation in use."""

    api: Api
    namespace: str
    forget_history: Callable[[], Awaitable[str]]
    """Has the server forget old changes of widgets; returns a version that is too old to watch from."""

    def name(self, name: str) -> str:
        """A name of this test's own, for kinds without a namespace."""
        return f"{self.namespace}-{name}"


Scenario = Callable[[Subject], Awaitable[None]]
Run = Callable[[Scenario], None]
_KINDS: tuple[type[Any], ...] = (Pod, Widget, Node, Planet)
_Cluster = AbstractAsyncContextManager[Subject]


@asynccontextmanager
async def _prepared(api: Api, forget_history: Callable[[], Awaitable[str]]) -> AsyncIterator[Subject]:
    """A namespace for the test, and the suite's custom kinds; nothing of it stays."""
    namespace = f"contract-{next(_names)}"
    await api.create(Namespace(metadata=ObjectMeta(name=namespace)))
    for each in DEFINITIONS:
        try:
            await api.create(each)
        except AlreadyExistsError:
            continue
    for defined in (Widget, Planet):
        await _served(api, defined)
    yield Subject(api, namespace, forget_history)
    for kind in _KINDS:
        for obj in (await api.list(kind)).items:
            metadata = obj.metadata
            if metadata.namespace == namespace or metadata.name.startswith(f"{namespace}-"):
                if metadata.finalizers:
                    patch = {"metadata": {"finalizers": None}}
                    await api.patch(kind, metadata.name, patch, namespace=metadata.namespace)
                try:
                    await api.delete(
                        kind, metadata.name, namespace=metadata.namespace, grace_period_seconds=0
                    )
                except NotFoundError:
                    continue


async def _served(api: Api, kind: type[object]) -> None:
    """A real API server takes a moment to serve what was defined."""
    while True:
        try:
            await api.list(kind)
        except NotFoundError:
            await asyncio.sleep(0.1)
        else:
            return


@asynccontextmanager
async def memory() -> AsyncIterator[Subject]:
    api = MemoryApi(keep_changes=100, clock=LoopClock(asyncio.get_running_loop()))

    async def forget_history() -> str:
        old = (await api.list(Widget)).resource_version
        for number in range(126):
            await api.create(Namespace(metadata=ObjectMeta(name=f"noise-{number}")))
        return old

    async with _prepared(api, forget_history) as subject:
        yield subject


@asynccontextmanager
async def fenced() -> AsyncIterator[Subject]:
    async with memory() as subject:
        yield Subject(FencedApi(subject.api, lambda: True), subject.namespace, subject.forget_history)


def _forgetting(store: RevisionStore) -> Callable[[], Awaitable[str]]:
    async def forget_history() -> str:
        old = store.revision - 1
        store.compact(store.revision)
        return str(old)

    return forget_history


@asynccontextmanager
async def in_process() -> AsyncIterator[Subject]:
    store = await RevisionStore.open(None)
    try:
        core = Core(store, clock=LoopClock(asyncio.get_running_loop()))
        async with _prepared(InProcessApi(core), _forgetting(store)) as subject:
            yield subject
    finally:
        await store.close()


@asynccontextmanager
async def local_https(folder: Path) -> AsyncIterator[Subject]:
    clock, credentials = SystemClock(), shared_credentials()
    store = await RevisionStore.open(None)
    try:
        async with HttpServer(Core(store, clock=clock), credentials=credentials, clock=clock) as server:
            file = folder / "kubeconfig"
            file.write_text(kubeconfig(server.url, credentials), encoding="utf-8")
            async with _http(file) as api, _prepared(api, _forgetting(store)) as subject:
                yield subject
    finally:
        await store.close()


@asynccontextmanager
async def real(control_plane: ControlPlane) -> AsyncIterator[Subject]:
    async def forget_history() -> str:
        # What happened before the kind was defined, its cache has never known.
        return "1"

    async with (
        _http(control_plane.kubeconfig(ADMIN)) as api,
        _prepared(api, forget_history) as subject,
    ):
        yield subject


@asynccontextmanager
async def _http(file: Path) -> AsyncIterator[HttpApi]:
    api = HttpApi(load_client_config(kubeconfig=str(file)), qps=1000, burst=1000)
    try:
        yield api
    finally:
        await api.close()


def runner(name: str, request: pytest.FixtureRequest) -> Run:
    """How to run a scenario on the implementation of this name."""
    virtual: dict[str, Callable[[], _Cluster]] = {
        "memory": memory,
        "fenced": fenced,
        "in-process": in_process,
    }
    if name in virtual:
        return lambda scenario: run_in_virtual_time(lambda: _play(virtual[name](), scenario))
    if name == "real":
        control_plane: ControlPlane = request.getfixturevalue("control_plane")
        return lambda scenario: asyncio.run(_bounded(real(control_plane), scenario))
    folder: Path = request.getfixturevalue("tmp_path")
    # A minute is too long on a real clock.
    request.getfixturevalue("monkeypatch").setattr(reading, "BOOKMARK_SECONDS", 0.2)
    return lambda scenario: asyncio.run(_bounded(local_https(folder), scenario))


async def _play(cluster: _Cluster, scenario: Scenario) -> None:
    async with cluster as subject:
        await scenario(subject)


async def _bounded(cluster: _Cluster, scenario: Scenario) -> None:
    async with asyncio.timeout(BOUND_SECONDS):
        await _play(cluster, scenario)
