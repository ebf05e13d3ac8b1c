"""`python -m benchmarks.apiserver_verbs`: creates, binds and watch deliveries a second, as clients see them.

In: the embedded API server on a SQLite file, asked in this process and over HTTPS by one client with many
requests at a time. Out: a table; the same verbs on the same machine in one run, so that the two ways can
be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from kuberth.api.core import Binding, ObjectReference, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.client.protocol import Api
from kuberth.local.hollow.running import CONTROLLERS
from kuberth.local.in_process import InProcessApi
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, running_cluster
from kuberth.testing import make_pod

AT_A_TIME = 24


@asynccontextmanager
async def _over(cluster: EmbeddedCluster, *, https: bool) -> AsyncIterator[Api]:
    if not https:
        yield InProcessApi(cluster.core)
        return
    api = HttpApi(load_client_config(kubeconfig=str(cluster.kubeconfig_path)), qps=-1)
    try:
        yield api
    finally:
        await api.close()


async def _all(work: Iterable[Callable[[], Awaitable[object]]]) -> float:
    """Run the calls, a limited number at a time, and return the seconds they took."""
    rest = iter(work)

    async def worker() -> None:
        for each in rest:
            await each()

    before = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for number in range(AT_A_TIME):
            tasks.create_task(worker(), name=f"worker {number}")
    return time.perf_counter() - before


async def _watched(api: Api, number: int, started: asyncio.Event) -> None:
    listed = await api.list(Pod)
    started.set()
    seen = 0
    async for event in api.watch(Pod, resource_version=listed.resource_version):
        seen += event.object is not None
        if seen >= number:
            return


def _bind(api: Api, name: str, node: str) -> Awaitable[object]:
    metadata = ObjectMeta(name=name, namespace="default")
    return api.bind(Binding(metadata=metadata, target=ObjectReference(kind="Node", name=node)))


def _pod(name: str) -> Pod:
    return make_pod(name, uid="", containers=[{"name": "main", "image": "none"}])


async def _measure(folder: Path, number: int, *, https: bool) -> dict[str, float]:
    settings = ClusterSettings(
        nodes=0, data=folder, port=0, with_scheduler=False, without=frozenset(CONTROLLERS)
    )
    async with running_cluster(settings) as cluster, _over(cluster, https=https) as api:
        names = [f"p{each}" for each in range(number)]
        started = asyncio.Event()
        watch = asyncio.ensure_future(_watched(api, 2 * number, started))
        await started.wait()
        before = time.perf_counter()
        creating = await _all(partial(api.create, _pod(name)) for name in names)
        binding = await _all(partial(_bind, api, name, "n1") for name in names)
        await watch
        watching = time.perf_counter() - before
    return {
        "creates": number / creating,
        "binds": number / binding,
        "watch deliveries": 2 * number / watching,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=2000)
    options = parser.parse_args()
    results = {}
    for https in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            results[https] = asyncio.run(_measure(Path(folder), options.pods, https=https))
    print(f"{'a second':20} {'in process':>12} {'over HTTPS':>12} {'ratio':>8}")
    for verb, local in results[False].items():
        remote = results[True][verb]
        print(f"{verb:20} {local:12,.0f} {remote:12,.0f} {remote / local:8.2f}")


if __name__ == "__main__":
    main()
