"""`python -m benchmarks.attacks_cluster NAME`: attacks of one tenant on a real API server.

In: etcd, kube-apiserver and kube-scheduler (`make envtest`), objects that a hostile or careless tenant
creates, and ordinary pods that arrive ten times a second, from a process of their own that sees nothing of
the tenant's objects. Out: for kube-scheduler and for Kuberth, how late ordinary pods were bound (from the
server's answer to their creation), how late the server's watch delivered them at most, the CPU time and the
peak memory of the scheduler, and the slowest answer of its probe. Every attack has a cluster of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import re
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from benchmarks import attacks
from benchmarks.attacks import HOSTNAME, OTHERS, TENANT, ZONE
from kuberth.api.core import Node, Pod
from kuberth.api.kinds import REGISTRY
from kuberth.api.wire import encode
from kuberth.bench.arenas import ASSETS, Arena, arena, find_program
from kuberth.bench.collecting import Meter
from kuberth.bench.contenders import _ProcessMeter, _scheduler_program, configuration
from kuberth.client.http_api import HttpApi
from kuberth.client.identity.kubeconfig import load_client_config
from kuberth.errors import ApiError
from kuberth.testing import make_namespace, make_node, make_pod

EVERY_SECONDS: Final = 0.1
"""An ordinary pod arrives this often."""
SETTLE_SECONDS: Final = 5.0
"""Ordinary pods arrive for this long after the tenant's last object."""
MOST_SECONDS: Final = 90.0
"""An attack ends after this time at the latest."""
GIVE_UP_SECONDS: Final = 60.0
"""Pods that are not bound this long after the end count as this late."""
WRITERS: Final = 16
PROBED_EVERY_SECONDS: Final = 0.2
SCHEDULERS: Final = ("kube-scheduler", "kuberth")
TENANTS_ADDRESS: Final = "127.0.0.2"
"""The tenant's connections come from another address than the probes."""
_RESIDENT: Final = re.compile(r"^process_resident_memory_bytes (\S+)$", re.MULTILINE)
RESOURCE: Final = "/apis/resource.k8s.io/v1"


class Writer:
    """Creates and changes objects, and repeats what the server is too busy for."""

    def __init__(self, api: HttpApi) -> None:
        self.http = api

    async def create(self, obj: Any) -> None:
        """Create a struct, or a tree with the path of its collection."""
        path, tree = obj if isinstance(obj, tuple) else (_collection(obj), _tree(obj))
        await self.send("POST", path, tree)
        nominated = tree.get("status", {}).get("nominatedNodeName")
        if nominated:
            status = {"status": {"nominatedNodeName": nominated}}
            await self.patch(f"{path}/{tree['metadata']['name']}/status", status)

    async def send(self, method: str, path: str, tree: Mapping[str, Any]) -> None:
        body = encode(tree)
        for attempt in range(5):
            try:
                await self.http.call(method, path, body=body)
                return
            except ApiError as error:
                if error.code is not None and error.code < 500 and error.code != 429:
                    raise
                await asyncio.sleep(0.2 * (attempt + 1))

    async def patch(self, path: str, tree: Mapping[str, Any]) -> None:
        await self.http.call("PATCH", path, body=encode(tree), content_type="application/merge-patch+json")


class OrdinaryPods:
    """Ordinary pods that arrive one after the other, and how late they are bound."""

    def __init__(self, api: HttpApi) -> None:
        self._writer = Writer(api)
        self._created = 0
        self._born: dict[str, float] = {}
        self._seen: set[str] = set()
        self._bound: set[str] = set()
        self.lateness: list[float] = []
        self.watch_lags: list[float] = []
        """How long after the answer to its creation a watch delivered a pod: the server's own lateness."""

    async def create(self) -> None:
        """One after the other, until cancelled."""
        due = time.perf_counter()
        while True:
            self._created += 1
            name = f"pod-{self._created}"
            labels = {"app": f"app-{self._created}", "tier": "web"}
            cpu = f"{10 + self._created % 7}m"
            pod = make_pod(name, namespace=OTHERS, cpu=cpu, memory="16Mi", labels=labels)
            await self._writer.create(pod)
            if name not in self._bound:  # the watch may say so before the server answers
                self._born[name] = time.perf_counter()
            due += EVERY_SECONDS
            await asyncio.sleep(due - time.perf_counter())

    async def watch(self) -> None:
        """Note when they are bound, until cancelled."""
        theirs, http = f"metadata.namespace={OTHERS}", self._writer.http
        while True:
            with contextlib.suppress(ApiError):
                listed = await http.list(Pod, field_selector=theirs)
                for pod in listed.items:  # bound while there was no watch
                    self._see(pod)
                version = listed.resource_version
                async for event in http.watch(Pod, resource_version=version, field_selector=theirs):
                    self._see(event.object)

    def _see(self, pod: Pod | None) -> None:
        if pod is None:
            return
        name, now = pod.metadata.name, time.perf_counter()
        if name not in self._seen:
            self._seen.add(name)
            self.watch_lags.append(now - self._born.get(name, now))
        if pod.spec.node_name and name not in self._bound:
            self._bound.add(name)
            self.lateness.append(now - self._born.pop(name, now))

    async def all_bound(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GIVE_UP_SECONDS):
                while self._born:  # noqa: ASYNC110 - the watch says when
                    await asyncio.sleep(0.05)
        self.lateness += [GIVE_UP_SECONDS] * len(self._born)


def _ordinary_pods(kubeconfig: str, pipe: Connection) -> None:
    """The process of the ordinary pods: after a message it ends, and sends how late they were."""

    async def run() -> None:
        api = HttpApi(load_client_config(kubeconfig=kubeconfig), qps=-1)
        pods = OrdinaryPods(api)
        watching, creating = (asyncio.ensure_future(work) for work in (pods.watch(), pods.create()))
        try:
            await asyncio.to_thread(pipe.recv)
            creating.cancel()
            await pods.all_bound()
        finally:
            for task in (watching, creating):
                task.cancel()
            await asyncio.gather(watching, creating, return_exceptions=True)
            await api.close()

        pipe.send((pods.lateness, pods.watch_lags))

    asyncio.run(run())


class ClusterTrial(Writer):
    """One attack on one scheduler. Has the methods of `attacks.Trial` that attacks call."""

    def __init__(self, api: HttpApi, nodes: int) -> None:
        super().__init__(api)
        self.nodes = nodes
        self.api = _LaterWrites(self)
        self.lateness: list[float] = []
        self.watch_lags: list[float] = []
        self.slowest_probe = 0.0
        self.probes: Counter[bool] = Counter()
        """How many passed, and failed."""
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self.meter: _ProcessMeter | None = None
        """Of the scheduler, once it runs."""

    async def print_memory(self, when: str) -> None:
        """What the scheduler itself reports: its resident memory."""
        assert self.meter is not None
        found = _RESIDENT.search(await self.meter.metrics())
        print(f"  {when:<26} {float(found[1]) / 2**20 if found else 0:5.0f} MiB", flush=True)

    def begin(self) -> None:
        """Ordinary pods arrive from the start."""

    async def put(self, objects: Iterable[Any]) -> None:
        """Create objects, several at a time."""
        left = iter(objects)

        async def writer() -> None:
            for each in left:
                await self.create(each)

        await asyncio.gather(*(writer() for _ in range(WRITERS)))

    async def until_bound(self, pods: Iterable[str], namespace: str = TENANT) -> None:
        """Attacks end when the objects are there; what becomes of the tenant's pods does not matter."""

    async def until_attempted(self, more: int) -> None:
        """As above."""

    async def connected(
        self, *, sender: str | None = None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new connection to the port that the scheduler serves, from an address of the machine."""
        assert self.meter is not None
        assert self.meter.pages is not None
        address = urlsplit(self.meter.pages.config.server)
        local = None if sender is None else (sender, 0)
        return await asyncio.open_connection(address.hostname, address.port, ssl=self._tls, local_addr=local)

    async def probe(self) -> None:
        """As a kubelet: with a connection of its own each time."""
        while True:
            asked = time.perf_counter()
            try:
                reader, writer = await self.connected()
                writer.write(b"GET /livez HTTP/1.1\r\nHost: scheduler\r\nConnection: close\r\n\r\n")
                answer = await reader.read()
                writer.close()
                passed = answer.startswith(b"HTTP/1.1 200")
            except OSError:
                passed = False
            seconds = time.perf_counter() - asked if passed else float("inf")
            self.slowest_probe = max(self.slowest_probe, seconds)
            self.probes[passed] += 1
            await asyncio.sleep(PROBED_EVERY_SECONDS)


class _LaterWrites:
    """The methods of an API in memory that attacks call, sent in the background."""

    def __init__(self, trial: ClusterTrial) -> None:
        self._trial = trial
        self._tasks: set[asyncio.Task[None]] = set()

    def put(self, obj: Any) -> None:
        self._start(self._trial.create(obj))

    def replace(self, obj: Any) -> None:
        tree = _tree(obj)
        path = f"{_collection(obj)}/{tree['metadata']['name']}"
        self._start(self._trial.patch(path, {"metadata": {"labels": tree["metadata"]["labels"]}}))

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _collection(obj: Any) -> str:
    info = REGISTRY.of(type(obj))
    root = "/api/v1" if "/" not in info.api_version else f"/apis/{info.api_version}"
    namespace = f"/namespaces/{obj.metadata.namespace}" if obj.metadata.namespace else ""
    return f"{root}{namespace}/{info.full_resource.partition('.')[0]}"


def _tree(obj: Any) -> dict[str, Any]:
    """As the API server takes it."""
    info = REGISTRY.of(type(obj))
    tree: dict[str, Any] = {**json.loads(encode(obj)), "apiVersion": info.api_version, "kind": info.kind}
    tree["metadata"].pop("uid", None)
    if info.kind == "Pod":
        for container in tree["spec"]["containers"]:
            container["image"] = "x"
    return tree


Attack = Callable[[ClusterTrial], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    """List it under its name."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


def _named(
    prefix: str, name: str, spec: Mapping[str, Any], namespace: str = ""
) -> tuple[str, dict[str, Any]]:
    return prefix, {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def _class(name: str = "class") -> tuple[str, dict[str, Any]]:
    return _named(f"{RESOURCE}/deviceclasses", name, {})


def _slice(node: int, devices: int, *, pool: str = "") -> tuple[str, dict[str, Any]]:
    name = f"node-{node}"
    spec = {
        "driver": "driver.example.com",
        "nodeName": name,
        "pool": {"name": pool or name, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"device-{index}", "attributes": {"uuid": {"string": f"{node}-{index}"}}}
            for index in range(devices)
        ],
    }
    return _named(f"{RESOURCE}/resourceslices", pool or name, spec)


def _claim(name: str, requests: list[dict[str, Any]], **more: Any) -> tuple[str, dict[str, Any]]:
    spec = {"devices": {"requests": requests, **more}}
    return _named(f"{RESOURCE}/namespaces/{TENANT}/resourceclaims", name, spec, TENANT)


def _claiming(name: str, claim: str) -> Pod:
    return make_pod(
        name, namespace=TENANT, cpu="1m", resourceClaims=[{"name": "devices", "resourceClaimName": claim}]
    )


@attack
async def devices(trial: ClusterTrial) -> None:
    """Three nodes with 16 devices; ten requests, a constraint that two of them cannot meet."""
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "class", "count": 1}} for n in range(10)]
    constraints = [
        {"requests": names, "matchAttribute": "driver.example.com/uuid"} for names in (["r0"], ["r8", "r9"])
    ]
    await trial.put([_class(), *(_slice(node, 16) for node in range(3))])
    await trial.put([_claim("claim", requests, constraints=constraints), _claiming("hostile", "claim")])


@attack
async def regular_expressions(trial: ClusterTrial) -> None:
    """A selector whose regular expression is evaluated 1,800 times for each device."""
    outer, inner = ", ".join(map(str, range(40))), ", ".join(map(str, range(45)))
    text = f"[{outer}].all(i, [{inner}].all(j, '{'a' * 1400}'.matches('(a?){{1000}}b') || true))"
    exactly = {"deviceClassName": "class", "count": 1, "selectors": [{"cel": {"expression": text}}]}
    await trial.put([_class(), *(_slice(node, 16) for node in range(3))])
    claim = _claim("claim", [{"name": "r", "exactly": exactly}])
    await trial.put([claim, _claiming("hostile", "claim")])


@attack
async def pools(trial: ClusterTrial) -> None:
    """2,000 pools of 16 devices, and 20 pods with a claim that no device meets."""
    await trial.put([_class(), *(_slice(n % trial.nodes, 16, pool=f"pool-{n}") for n in range(2000))])
    selector = {"cel": {"expression": "device.attributes['driver.example.com'].uuid == 'none'"}}
    exactly = {"deviceClassName": "class", "count": 1, "selectors": [selector]}
    for n in range(20):
        await trial.put(
            [_claim(f"c-{n}", [{"name": "r", "exactly": exactly}]), _claiming(f"h-{n}", f"c-{n}")]
        )


@attack
async def label_changes(trial: ClusterTrial) -> None:
    """3,000 waiting pods with required podAffinity, and 30 changes of node labels a second."""
    expressions = [
        {"key": "absent", "operator": "Exists"},
        {"key": "x", "operator": "NotIn", "values": ["y"]},
    ]
    term = {
        "topologyKey": ZONE,
        "namespaceSelector": {},
        "labelSelector": {"matchExpressions": expressions},
    }
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await trial.put(
        make_pod(f"h-{n}", namespace=TENANT, cpu="1m", labels={"app": f"h-{n}"}, affinity=affinity)
        for n in range(3000)
    )
    for number in range(300):
        labels = {"metadata": {"labels": {ZONE: f"zone-{number % 5}"}}}
        await trial.patch(f"/api/v1/nodes/node-{number % trial.nodes}", labels)
        await asyncio.sleep(1 / 30)


@attack
async def preferred_terms(trial: ClusterTrial) -> None:
    """20 pods with 2,000 preferred pod-affinity terms (DoesNotExist)."""
    for n in range(20):
        terms = [
            attacks._weighted({"matchExpressions": [{"key": f"{n}-{i}", "operator": "DoesNotExist"}]})
            for i in range(2000)
        ]
        await trial.put([attacks._preferring(f"hostile-{n}", terms)])


@attack
async def long_lists(trial: ClusterTrial) -> None:
    """40 pods with NotIn of nine times 10,000 values, deleted again, three times."""
    await trial.print_memory("before")
    for number in range(3):
        for n in range(40):
            terms = [
                attacks._weighted(
                    {
                        "matchExpressions": [
                            {
                                "key": f"k{key}",
                                "operator": "NotIn",
                                "values": [*map(str, range(n, 10_000 + n))],
                            }
                        ]
                    }
                )
                for key in range(9)
            ]
            await trial.put([attacks._preferring(f"hostile-{n}", terms)])
        await asyncio.sleep(1)
        await trial.print_memory(f"with them, round {number + 1}")
        for n in range(40):
            await trial.send(
                "DELETE",
                f"/api/v1/namespaces/{TENANT}/pods/hostile-{n}",
                {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0},
            )
        await asyncio.sleep(2)
        await trial.print_memory(f"deleted, round {number + 1}")


@attack
async def idle_connections(trial: ClusterTrial) -> None:
    """300 TLS connections to the scheduler's port that send nothing, reopened when they are closed."""
    opened = 0

    async def one() -> None:
        nonlocal opened
        while True:
            try:
                reader, writer = await trial.connected(sender=TENANTS_ADDRESS)
                opened += 1
                await reader.read()
                writer.close()
            except OSError:
                pass
            await asyncio.sleep(0.1)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            for _ in range(300):
                tasks.create_task(one())
    print(f"  {opened} connections were opened", flush=True)


for _name in (
    *("nothing", "node-affinity", "spread", "namespace-selectors", "not-in", "anti-affinity-keys"),
    *("gang-that-fits", "gang-that-does-not-fit", "nominations", "nominations-that-fit", "claims"),
    "huge-requests",
):
    ATTACKS[_name] = attacks.ATTACKS[_name]  # type: ignore[assignment]  # it has the methods that they call


def _node(index: int) -> Node:
    labels = {ZONE: f"zone-{index % 3}", HOSTNAME: f"node-{index}"}
    return make_node(f"node-{index}", cpu="32", memory="256Gi", pods="500", labels=labels)


@asynccontextmanager
async def _scheduling(
    name: str, place: Arena, gates: Mapping[str, bool], assets: Path | None
) -> AsyncIterator[Meter]:
    command = [sys.executable, "-m", "kuberth", "run"]
    if name != "kuberth":
        command = [str(find_program(name, assets))]
    async with _scheduler_program(name, command, place, configuration(None), gates) as meter:
        yield meter


async def _measure(name: str, scheduler: str, options: argparse.Namespace) -> None:
    gates = attacks.GATES if name.startswith("gang") else {}
    with tempfile.TemporaryDirectory(prefix="attacks-") as folder:
        async with arena(ASSETS, gates=gates, folder=Path(folder), assets=options.assets) as place:
            api = HttpApi(load_client_config(kubeconfig=str(place.kubeconfig)), qps=-1, max_connections=24)
            trial = ClusterTrial(api, options.nodes)
            try:
                await trial.put([make_namespace(each, labels={"name": each}) for each in (TENANT, OTHERS)])
                await trial.put([_node(index) for index in range(options.nodes)])
                async with _scheduling(scheduler, place, gates, options.assets) as meter:
                    await _attacked(name, trial, meter, place)
                    _print(name, scheduler, trial, meter)
            finally:
                await api.close()


async def _attacked(name: str, trial: ClusterTrial, meter: Meter, place: Arena) -> None:
    assert isinstance(meter, _ProcessMeter)
    assert place.kubeconfig is not None
    trial.meter = meter
    probing = asyncio.ensure_future(trial.probe())
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    others = context.Process(target=_ordinary_pods, args=(str(place.kubeconfig), there))
    others.start()
    try:
        await asyncio.sleep(2)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(MOST_SECONDS):
                await ATTACKS[name](trial)
        await asyncio.sleep(SETTLE_SECONDS)
        here.send("end")
        trial.lateness, trial.watch_lags = await asyncio.to_thread(here.recv)
    finally:
        probing.cancel()
        await asyncio.gather(probing, return_exceptions=True)
        others.kill()
        others.join()


def _print(name: str, scheduler: str, trial: ClusterTrial, meter: Meter) -> None:
    usage, late = meter.usage(), trial.lateness
    failed, passed = trial.probes[False], trial.probes[True]
    probe = f"{failed} of {failed + passed} failed" if failed else f"{trial.slowest_probe * 1e3:.0f} ms"
    print(
        f"{name:<24} {scheduler:<15} late p50 {statistics.median(late) * 1e3:6.0f} ms, "
        f"max {max(late) * 1e3:6.0f} ms   server's watch {max(trial.watch_lags) * 1e3:6.0f} ms   "
        f"CPU {usage.cpu_seconds or 0:5.1f} s   "
        f"peak {usage.peak_mib or 0:5.0f} MiB   probe {probe}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks_cluster", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=[*ATTACKS, "all"], metavar="NAME", help=", ".join(ATTACKS)
    )
    parser.add_argument("--nodes", type=int, default=100, metavar="N")
    parser.add_argument("--assets", type=Path, metavar="DIR", help="folder of the three programs")
    parser.add_argument("--scheduler", choices=SCHEDULERS, action="append", help="only this one")
    options = parser.parse_args()
    for name in ATTACKS if "all" in options.names else options.names:
        for scheduler in options.scheduler or SCHEDULERS:
            asyncio.run(_measure(name, scheduler, options))


if __name__ == "__main__":
    main()
