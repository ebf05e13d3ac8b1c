"""`python -m benchmarks.attacks NAME`: what one tenant's objects cost the pods of others.

In: a scheduler over an API in memory, objects that a hostile or careless tenant creates, and ordinary pods
that arrive before, during and after. Out: the longest turn of the event loop (in CPU time), how
late ordinary pods were bound (from due to bound), and the CPU time that an ordinary pod costs once the
tenant's objects are in place.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import resource
import selectors
import statistics
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import Any, Final

from msgspec.structs import replace

from kuberth.api.apps import ReplicaSet
from kuberth.api.core import Node, Pod, Service
from kuberth.api.policy import PodDisruptionBudget
from kuberth.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from kuberth.api.scheduling import PodGroup
from kuberth.api.storage import CSINode
from kuberth.api.volumes import PersistentVolume, PersistentVolumeClaim
from kuberth.api.wire import convert
from kuberth.assembly.scheduler import Scheduler
from kuberth.client.writes import Write
from kuberth.config import FeatureGates
from kuberth.errors import ApiError
from kuberth.programs.memory import collecting_in_portions
from kuberth.testing import MemoryApi, make_namespace, make_node, make_pod

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
TENANT: Final = "tenant"
OTHERS: Final = "others"
EVERY_SECONDS: Final = 0.05
"""An ordinary pod arrives this often."""
GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
KEPT_CHANGES: Final = 20_000
"""As many as the cache of a real API server holds: a watch that falls behind further is cut, and its client
lists again after a backoff."""
KEPT_CHANGES_OF_DELETED: Final = 50
"""Deleted objects live on in the changes that watches may still ask for."""


class Trial:
    """One attack on one scheduler."""

    def __init__(
        self, nodes: int, turns: Turns, *, gates: Mapping[str, bool] | None = None, keep_changes: int
    ) -> None:
        self.nodes = nodes
        self.turns = turns
        self.api = FaultyApi(keep_changes=keep_changes)
        self.scheduler = Scheduler(self.api, feature_gates=FeatureGates(gates or {}))
        self.lateness: list[float] = []
        self._created = 0
        self._born: dict[str, float] = {}
        self._arriving: asyncio.Task[None] | None = None

    # What the tenant does

    def begin(self) -> None:
        """Measure from now on, unless this has begun."""
        if self._arriving is None:
            gc.collect()
            self.turns.restart()
            self.lateness.clear()
            self._arriving = asyncio.create_task(self._ordinary_pods())

    async def end(self) -> None:
        """Measure no more."""
        if self._arriving is not None:
            self._arriving.cancel()
        await self.all_bound()

    async def put(self, objects: Iterable[Any]) -> None:
        """Create objects, one in a turn of the event loop. With the first call measuring begins."""
        objects = list(objects)
        self.begin()
        for each in objects:
            self.api.put(each)
            await asyncio.sleep(0)

    async def remove(self, kind: type[Any], keys: Iterable[str]) -> None:
        for key in keys:
            self.api.remove(kind, key)
            await asyncio.sleep(0)

    async def until_attempted(self, more: int) -> None:
        """Wait until this number of further attempts has been made."""
        wanted = self._attempts() + more
        while self._attempts() < wanted:  # noqa: ASYNC110 - nothing else says that an attempt has ended
            await asyncio.sleep(0.002)

    async def until_bound(self, pods: Iterable[str], namespace: str = TENANT) -> None:
        """Wait until all of these pods have their nodes."""
        for name in pods:
            while not self.api.read(Pod, f"{namespace}/{name}").spec.node_name:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.002)

    def _attempts(self) -> int:
        return int(sum(self.scheduler.metrics.schedule_attempts.values.values()))

    # What others meet

    async def _ordinary_pods(self) -> None:
        """One ordinary pod after the other, until cancelled."""
        due = time.perf_counter()
        while True:
            self.ordinary_pod(due)
            due += EVERY_SECONDS
            await asyncio.sleep(due - time.perf_counter())

    def ordinary_pod(self, due: float | None = None) -> None:
        """One that has a label of its own and no equal; `due`: when it should have come."""
        self._created += 1
        number = self._created
        name = f"pod-{number}"
        self._born[name] = time.perf_counter() if due is None else due
        labels = {"app": f"app-{number}", "tier": "web"}
        cpu = f"{10 + number % 7}m"
        self.api.put(make_pod(name, namespace=OTHERS, cpu=cpu, memory="16Mi", labels=labels, priority=0))

    async def watch_ordinary_pods(self) -> None:
        while True:  # a watch that is too slow ends
            async for event in self.api.watch(Pod, resource_version="0"):
                pod: Any = event.object
                if pod is not None and pod.spec.node_name and pod.metadata.namespace == OTHERS:
                    born = self._born.pop(pod.metadata.name, None)
                    if born is not None:
                        self.lateness.append(time.perf_counter() - born)

    async def all_bound(self) -> None:
        while self._born:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.002)

    async def cpu_of_ordinary_pods(self, number: int) -> float:
        """Seconds of CPU that one ordinary pod takes, if they come one after the other."""
        await self.all_bound()
        gc.collect()
        began = time.process_time()
        for _ in range(number):
            self.ordinary_pod()
            await self.all_bound()
        return (time.process_time() - began) / number


class Turns(selectors.DefaultSelector):
    """Measures the turns of an event loop, in CPU time: other programs on the machine make no difference."""

    longest = 0.0
    _began = 0.0
    turned = 0.0
    """When the last turn began, by `time.perf_counter`."""

    def restart(self) -> None:
        """Measure from now on."""
        self.longest, self._began = 0.0, time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.longest = max(self.longest, time.thread_time() - self._began)
        ready = super().select(timeout)
        self._began, self.turned = time.thread_time(), time.perf_counter()
        return ready


class FaultyApi(MemoryApi):
    """Refuses the bindings of one namespace on demand."""

    refuses: int | None = None

    async def write(self, write: Write) -> Any:
        if self.refuses and write.subresource == "binding" and write.namespace == TENANT:
            raise ApiError(f"bind {write.name}: refused", code=self.refuses)
        return await super().write(write)


Attack = Callable[[Trial], Awaitable[None]]
ATTACKS: dict[str, Attack] = {}


def attack(function: Attack) -> Attack:
    """List it under its name."""
    ATTACKS[function.__name__.replace("_", "-")] = function
    return function


def _named(number: int) -> Iterator[str]:
    return (f"hostile-{index}" for index in range(number))


def _preferring(name: str, terms: list[dict[str, Any]], **more: Any) -> Pod:
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return make_pod(name, namespace=TENANT, cpu="1m", labels={"app": name}, affinity=affinity, **more)


def _weighted(selector: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"weight": 1, "podAffinityTerm": {"topologyKey": ZONE, "labelSelector": selector, **more}}


@attack
async def nothing(trial: Trial) -> None:
    """No attack, for comparison."""
    trial.begin()


@attack
async def node_affinity(trial: Trial) -> None:
    """30 pods with 4,000 preferred node-affinity terms each."""
    pods = []
    for name in _named(30):
        terms = [
            {
                "weight": 1 + index % 100,
                "preference": {
                    "matchExpressions": [
                        {"key": HOSTNAME, "operator": "NotIn", "values": [f"{name}-{index}"]}
                    ]
                },
            }
            for index in range(4000)
        ]
        affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        pods.append(make_pod(name, namespace=TENANT, cpu="1m", labels={"app": name}, affinity=affinity))
    await trial.put(pods)
    await trial.until_bound(_named(30))


@attack
async def spread(trial: Trial) -> None:
    """30 pods with 1,500 topology spread constraints each, whose keys no node has. Half have hard ones."""
    pods = []
    for number, name in enumerate(_named(30)):
        constraints = [
            {
                "maxSkew": 1,
                "topologyKey": f"key-{index}" if index > 1 else (ZONE, HOSTNAME)[index],
                "whenUnsatisfiable": "DoNotSchedule" if number % 2 else "ScheduleAnyway",
                "labelSelector": {
                    "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"{name}-{index}"]}]
                },
            }
            for index in range(1500)
        ]
        labels = {"app": name}
        pods.append(
            make_pod(name, namespace=TENANT, cpu="1m", labels=labels, topologySpreadConstraints=constraints)
        )
    await trial.put(pods)
    await trial.until_bound(list(_named(30))[::2])


@attack
async def namespace_selectors(trial: Trial) -> None:
    """20 pods with 2,000 preferred pod-affinity terms, each with a namespace selector of its own."""
    pods = []
    for name in _named(20):
        terms = [
            _weighted(
                {"matchExpressions": [{"key": "absent", "operator": "DoesNotExist"}]},
                namespaceSelector={
                    "matchExpressions": [{"key": "x", "operator": "NotIn", "values": [f"{name}-{index}"]}]
                },
            )
            for index in range(2000)
        ]
        pods.append(_preferring(name, terms))
    await trial.put(pods)
    await trial.until_bound(_named(20))


@attack
async def not_in(trial: Trial) -> None:
    """20 pods with 2,000 preferred pod-affinity terms: NotIn of ten values of a label that every pod has."""
    pods = []
    for name in _named(20):
        terms = [
            _weighted(
                {
                    "matchExpressions": [
                        {
                            "key": "tier",
                            "operator": "NotIn",
                            "values": [f"{name}-{index}-{value}" for value in range(10)],
                        }
                    ]
                },
                namespaceSelector={},
            )
            for index in range(2000)
        ]
        pods.append(_preferring(name, terms))
    await trial.put(pods)
    await trial.until_bound(_named(20))


@attack
async def anti_affinity_keys(trial: Trial) -> None:
    """200 pods with 300 required anti-affinity terms, each with a topology key of its own."""
    pods = []
    for name in _named(200):
        terms = [{"topologyKey": f"{name}-{index}", "labelSelector": {}} for index in range(300)]
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        pods.append(make_pod(name, namespace=TENANT, cpu="1m", affinity=affinity))
    await trial.put(pods)
    await trial.until_bound(_named(200))


@attack
async def long_lists(trial: Trial) -> None:
    """Five times 40 pods with NotIn of nine times 10,000 values, which are deleted again."""
    print(f"  {'before':<10} {_resident():7.0f} MiB")
    for number in range(5):
        names = [f"hostile-{number}-{index}" for index in range(40)]
        for name in names:
            terms = [
                _weighted(
                    {
                        "matchExpressions": [
                            {
                                "key": f"key-{key}",
                                "operator": "NotIn",
                                "values": [f"{name}-{key}-{value}" for value in range(10_000)],
                            }
                        ]
                    }
                )
                for key in range(9)
            ]
            await trial.put([_preferring(name, terms)])
        del terms
        await trial.until_bound(names)
        full = _resident()
        await trial.remove(Pod, [f"{TENANT}/{name}" for name in names])
        await asyncio.sleep(0.5)
        gc.collect()
        print(
            f"  round {number + 1:<4} {full:7.0f} MiB, {_resident():7.0f} MiB after their deletion",
            flush=True,
        )


def _gang(name: str, pods: int, *, cpu: str) -> Iterator[Any]:
    group = {
        "metadata": {"name": name, "namespace": TENANT, "uid": f"group-{name}"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}},
    }
    yield convert(PodGroup, group)
    for index in range(pods):
        yield make_pod(
            f"{name}-{index}",
            namespace=TENANT,
            cpu=cpu,
            memory="1Mi",
            labels={"app": name},
            schedulingGroup={"podGroupName": name},
        )


@attack
async def gang_that_fits(trial: Trial) -> None:
    """A gang of 2,000 pods."""
    await trial.put(_gang("gang", 2000, cpu="1m"))
    await trial.until_bound(f"gang-{index}" for index in range(2000))


@attack
async def gang_that_does_not_fit(trial: Trial) -> None:
    """A gang of 2,000 pods for which there is room for half."""
    cpu = 32 * trial.nodes // 1000
    await trial.put(_gang("gang", 2000, cpu=str(max(cpu, 1))))
    await trial.until_attempted(4000)


@attack
async def nominations(trial: Trial) -> None:
    """2,000 different pods that claim a nominated node each and fit nowhere, with nodes added meanwhile."""
    status = [{"nominatedNodeName": f"node-{index % trial.nodes}"} for index in range(2000)]
    await trial.put(
        make_pod(
            name,
            namespace=TENANT,
            cpu=f"{1 + index}m",
            priority=0,
            status=status[index],
            nodeSelector={"tenant": "none"},
        )
        for index, name in enumerate(_named(2000))
    )
    for number in range(20):
        trial.api.put(_node(trial.nodes + number))
        await asyncio.sleep(0.1)


@attack
async def nominations_that_fit(trial: Trial) -> None:
    """2,000 pods that claim a nominated node each and would fit."""
    status = [{"nominatedNodeName": f"node-{index % trial.nodes}"} for index in range(2000)]
    await trial.put(
        make_pod(name, namespace=TENANT, cpu=f"{1 + index}m", priority=0, status=status[index])
        for index, name in enumerate(_named(2000))
    )
    await trial.until_bound(_named(2000))


@attack
async def claims(trial: Trial) -> None:
    """3,000 pods without their PVC; then 3,000 PVCs that stay unbound, and two updates of each."""
    names = [*_named(3000)]
    await trial.put(
        make_pod(
            name,
            namespace=TENANT,
            cpu="1m",
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}],
        )
        for name in names
    )
    await trial.put(_claim(name, "Pending") for name in names)
    for phase in ("Lost", "Pending"):
        for name in names:
            trial.api.replace(_claim(name, phase))
            await asyncio.sleep(0)
    await asyncio.sleep(1)


def _claim(name: str, phase: str) -> PersistentVolumeClaim:
    return convert(
        PersistentVolumeClaim,
        {
            "metadata": {"name": name, "namespace": TENANT, "labels": {"phase": phase}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": phase},
        },
    )


@attack
async def pools(trial: Trial) -> None:
    """2,000 pools of 16 devices, and 20 pods with a claim that no device meets."""
    device_class = convert(DeviceClass, {"metadata": {"name": "class"}, "spec": {}})
    await trial.put([device_class, *map(partial(_slice, trial.nodes), range(2000))])
    selector = {"cel": {"expression": "device.attributes['driver.example.com'].uuid == 'none'"}}
    exactly = {"deviceClassName": "class", "count": 1, "selectors": [selector]}
    for name in _named(20):
        await trial.put(_claiming(name, exactly))
    for number in range(20):  # what was found out about the devices is void each time
        trial.api.replace(_slice(trial.nodes, number))
        await asyncio.sleep(0.1)


def _claiming(name: str, exactly: dict[str, Any], **metadata: Any) -> tuple[ResourceClaim, Pod]:
    claim = {
        "metadata": {"name": name, "namespace": TENANT, "uid": f"claim-{name}", **metadata},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }
    claims = [{"name": "devices", "resourceClaimName": name}]
    return convert(ResourceClaim, claim), make_pod(name, namespace=TENANT, cpu="1m", resourceClaims=claims)


def _slice(nodes: int, number: int, *, devices: int = 16) -> ResourceSlice:
    each = [
        {"name": f"device-{index}", "attributes": {"uuid": {"string": f"{number}-{index}"}}}
        for index in range(devices)
    ]
    spec = {
        "driver": "driver.example.com",
        "nodeName": f"node-{number % nodes}",
        "pool": {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 1},
        "devices": each,
    }
    return convert(ResourceSlice, {"metadata": {"name": f"pool-{number}"}, "spec": spec})


@attack
async def tolerations(trial: Trial) -> None:
    """30 pods with 5,000 tolerations each, and 200 nodes with taints of their own."""
    for index in range(200):
        taint = {"key": f"key-{index}", "value": "x", "effect": "PreferNoSchedule"}
        trial.api.replace(_node(index, taints=[taint]))
    pods = []
    for name in _named(30):
        each = [{"key": f"{name}-{index}", "operator": "Exists"} for index in range(5000)]
        pods.append(make_pod(name, namespace=TENANT, cpu="1m", tolerations=each))
    await trial.put(pods)
    await trial.until_bound(_named(30))


@attack
async def node_selectors(trial: Trial) -> None:
    """30 pods with 10,000 labels in their node selectors, and 20 changes of node labels a second."""
    pods = []
    for name in _named(30):
        wanted = {f"{name}-{index}": "x" for index in range(10_000)}
        pods.append(make_pod(name, namespace=TENANT, cpu="1m", nodeSelector=wanted))
    await trial.put(pods)
    for number in range(60):
        trial.api.replace(_node(number, labels={"changed": str(number)}))
        await asyncio.sleep(0.05)


@attack
async def node_labels(trial: Trial) -> None:
    """5,000 labels on each of 20 nodes, all of which change, 20 nodes a second, while 1,000 pods wait."""
    term = {"topologyKey": "label-1", "labelSelector": {"matchLabels": {"app": "none"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    await trial.put(
        make_pod(name, namespace=TENANT, cpu="1m", labels={"own": name}, affinity=affinity)
        for name in _named(1000)
    )
    for number in range(60):
        labels = {f"label-{index}": f"value-{number}" for index in range(5000)}
        trial.api.replace(_node(number % 20, labels=labels))
        await asyncio.sleep(0.05)


@attack
async def services(trial: Trial) -> None:
    """3,000 Services and 3,000 ReplicaSets with selectors of their own, all updated once, beside 200 pods."""
    objects = [
        convert(
            kind,
            {
                "metadata": {"name": f"{kind.__name__.lower()}-{index}", "namespace": namespace},
                "spec": {"selector": selector},
            },
        )
        for index in range(3000)
        for namespace in (TENANT,)
        for kind, selector in (
            (Service, {f"key-{index}": "x"}),
            (ReplicaSet, {"matchLabels": {f"key-{index}": "x"}}),
        )
    ]
    await trial.put(objects)
    await trial.put(
        make_pod(name, namespace=TENANT, cpu="1m", labels={f"key-{index}": "x", "app": name})
        for index, name in enumerate(_named(200))
    )
    for each in objects:
        trial.api.replace(each)
        await asyncio.sleep(0)
    await trial.until_bound(_named(200))


@attack
async def budgets(trial: Trial) -> None:
    """100 budgets with NotIn of 5,000 values, and 100 pods that would have to preempt others."""
    expression = {"key": "app", "operator": "NotIn", "values": [f"v-{index}" for index in range(5000)]}
    await trial.put(
        convert(
            PodDisruptionBudget,
            {
                "metadata": {"name": name, "namespace": OTHERS if index % 2 else TENANT},
                "spec": {"selector": {"matchExpressions": [expression]}},
                "status": {"disruptionsAllowed": 0},
            },
        )
        for index, name in enumerate(_named(100))
    )
    await trial.put(
        make_pod(name, namespace=TENANT, cpu=f"{31900 + index}m", priority=10 + index, labels={"app": name})
        for index, name in enumerate(_named(100))
    )
    await asyncio.sleep(3)


@attack
async def slices(trial: Trial) -> None:
    """500 slices of 64 devices, 50 of which are replaced every second, and 20 pods with claims."""
    trial.api.put(convert(DeviceClass, {"metadata": {"name": "class"}, "spec": {}}))
    await trial.put(_slice(trial.nodes, number, devices=64) for number in range(500))
    selector = {"cel": {"expression": "device.attributes['driver.example.com'].uuid == 'none'"}}
    exactly = {"deviceClassName": "class", "count": 1, "selectors": [selector]}
    for name in _named(20):
        await trial.put(_claiming(name, exactly))
    for number in range(150):
        trial.api.replace(_slice(trial.nodes, number % 500, devices=64))
        await asyncio.sleep(0.02)


@attack
async def device_claims(trial: Trial) -> None:
    """3,000 pods with claims that no device meets, and an update of each claim."""
    trial.api.put(convert(DeviceClass, {"metadata": {"name": "class"}, "spec": {}}))
    await trial.put(_slice(trial.nodes, number, devices=4) for number in range(50))
    exactly = {"deviceClassName": "class", "count": 500}
    for name in _named(3000):
        await trial.put(_claiming(name, exactly))
    for name in _named(3000):
        claim, _pod = _claiming(name, exactly, labels={"changed": "yes"})
        trial.api.replace(claim)
        await asyncio.sleep(0)
    await asyncio.sleep(1)


@attack
async def many_labels(trial: Trial) -> None:
    """100 pods with 5,000 labels of their own each."""
    await trial.put(
        make_pod(name, namespace=TENANT, cpu="1m", labels={f"{name}-{index}": "x" for index in range(5000)})
        for name in _named(100)
    )
    await trial.until_bound(_named(100))


@attack
async def rewrites(trial: Trial) -> None:
    """10 waiting pods with 2,000 required terms, whose labels change 40 times a second together."""
    pods = []
    for name in _named(10):
        terms = [
            {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"{name}-{index}"}}}
            for index in range(2000)
        ]
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        pods.append(partial(make_pod, name, uid=name, namespace=TENANT, cpu="1m", affinity=affinity))
    await trial.put(make() for make in pods)
    for number in range(100):
        trial.api.replace(pods[number % 10](labels={"changed": str(number)}))
        await asyncio.sleep(0.025)


@attack
async def ports_and_volumes(trial: Trial) -> None:
    """30 pods with 3,000 host ports, and 30 with 3,000 volumes whose claims are missing."""
    pods = []
    for number, name in enumerate(_named(60)):
        more: dict[str, Any] = {}
        if number % 2:
            ports = [{"containerPort": 80, "hostPort": 1000 + number * 1000 + index} for index in range(1000)]
            containers = [{"name": f"c{n}", "ports": ports} for n in range(3)]
            more = {"containers": containers}
        else:
            more = {
                "volumes": [
                    {"name": f"v{n}", "persistentVolumeClaim": {"claimName": f"{name}-{n}"}}
                    for n in range(3000)
                ]
            }
        pods.append(make_pod(name, namespace=TENANT, cpu=None, **more))
    await trial.put(pods)
    for number in range(300):
        trial.api.put(_claim(f"hostile-{number % 30 * 2}-{number}", "Pending"))
        await asyncio.sleep(0.005)


async def _refused_bindings(trial: Trial, status: int) -> None:
    trial.api.refuses = status
    await trial.put(make_pod(name, namespace=TENANT, cpu="1m", labels={"app": name}) for name in _named(2000))
    await asyncio.sleep(10)


@attack
async def bindings_500(trial: Trial) -> None:
    """2,000 pods whose bindings all fail with 500."""
    await _refused_bindings(trial, 500)


@attack
async def bindings_429(trial: Trial) -> None:
    """2,000 pods whose bindings all fail with 429."""
    await _refused_bindings(trial, 429)


@attack
async def gates(trial: Trial) -> None:
    """10,000 pods with 20 scheduling gates each, one of which is removed from every tenth."""
    each = [{"name": f"example.com/gate-{index}"} for index in range(20)]
    make = partial(make_pod, namespace=TENANT, cpu="1m")
    await trial.put(make(name, uid=name, schedulingGates=each) for name in _named(10_000))
    for name in [*_named(10_000)][::10]:
        trial.api.replace(make(name, uid=name, schedulingGates=each[1:]))
        await asyncio.sleep(0)


@attack
async def preemption(trial: Trial) -> None:
    """Pods as large as nodes that come back, each time with a higher priority than all others, when they have
    been preempted."""
    made = count()

    def large() -> Pod:
        number = next(made)
        return make_pod(f"large-{number}", namespace=TENANT, cpu="31", priority=1 + number)

    await trial.put(large() for _ in range(trial.nodes))
    await trial.until_bound(f"large-{index}" for index in range(trial.nodes))
    await trial.put(large() for _ in range(20))

    async def come_back() -> None:
        async for event in trial.api.watch(Pod, resource_version="0"):
            pod: Any = event.object
            if pod is not None and pod.metadata.deletion_timestamp is not None and event.type != "DELETED":
                trial.api.remove(Pod, f"{TENANT}/{pod.metadata.name}")
                trial.api.put(large())

    with suppress(TimeoutError):
        async with asyncio.timeout(10):
            await come_back()


@attack
async def csi_nodes(trial: Trial) -> None:
    """100 CSINodes with 2,000 drivers each, all of which change, and 60 pods with volumes of such drivers."""

    def csi_node(number: int, limit: int) -> CSINode:
        drivers = [
            {"name": f"d-{n}.example.com", "nodeID": f"{number}", "allocatable": {"count": limit}}
            for n in range(2000)
        ]
        return convert(CSINode, {"metadata": {"name": f"node-{number}"}, "spec": {"drivers": drivers}})

    before, after = ([csi_node(number, limit) for number in range(100)] for limit in (3, 4))
    await trial.put(before)
    for name in _named(60):
        csi = {"driver": "d-7.example.com", "volumeHandle": name}
        reference = {"name": name, "namespace": TENANT, "uid": f"claim-{name}"}
        spec = {"csi": csi, "claimRef": reference, "capacity": {"storage": "1Gi"}}
        volume = {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Bound"}}
        claim = _claim(name, "Bound")
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        metadata = replace(claim.metadata, uid=f"claim-{name}", annotations=bound)
        claim = replace(claim, metadata=metadata, spec=replace(claim.spec, volume_name=name))
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        pod = make_pod(name, namespace=TENANT, cpu="1m", volumes=volumes)
        await trial.put([convert(PersistentVolume, volume), claim, pod])
    for changed in after:
        trial.api.replace(changed)
        await asyncio.sleep(0.02)
    await trial.until_bound(_named(60))


@attack
async def pods_of_others(trial: Trial) -> None:
    """200,000 changes of 2,000 pods of another scheduler, 50 in a turn."""
    make = partial(make_pod, namespace=TENANT, cpu="1m", schedulerName="another")
    names = [*_named(2000)]
    await trial.put(make(name, uid=name) for name in names)
    for number in range(100):
        for index, name in enumerate(names):
            trial.api.replace(make(name, uid=name, labels={"number": str(number)}))
            if index % 50 == 0:
                await asyncio.sleep(0)


@attack
async def huge_requests(trial: Trial) -> None:
    """100 pods that request 9E of ephemeral storage twice: more than 64 bits hold."""
    resources = {"requests": {"cpu": "1m", "ephemeral-storage": "9E"}}
    containers = [{"name": f"c{number}", "resources": resources} for number in range(2)]
    await trial.put(
        make_pod(name, namespace=TENANT, cpu=None, labels={"app": name}, containers=containers)
        for name in _named(100)
    )
    await trial.until_attempted(100)


# Measuring


def _resident() -> float:
    """MiB of memory in use."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def _node(index: int, *, labels: Mapping[str, str] | None = None, **spec: Any) -> Node:
    own = {ZONE: f"zone-{index % 3}", HOSTNAME: f"node-{index}", **(labels or {})}
    return make_node(f"node-{index}", cpu="32", memory="256Gi", pods="500", labels=own, **spec)


@asynccontextmanager
async def _running(trial: Trial) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(work()) for work in (trial.scheduler.run, trial.watch_ordinary_pods)]
    try:
        yield
    finally:
        trial.scheduler.stop()
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()


class StackSampler(threading.Thread):
    """Counts where the event loop is while it stands still."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(daemon=True)
        self._trial = trial
        self._main = threading.get_ident()
        self.ended = threading.Event()
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self.ended.wait(0.005):
            if time.perf_counter() - self._trial.turns.turned > 0.04:
                stack = traceback.extract_stack(sys._current_frames()[self._main])
                lines = [
                    f"{each.filename.rpartition('kuberth/')[2]}:{each.lineno} {each.name}" for each in stack
                ]
                self.seen["\n      ".join(lines[-14:])] += 1


async def _measure(name: str, options: argparse.Namespace, turns: Turns) -> None:
    trial = Trial(
        options.nodes,
        turns,
        gates=GATES if name.startswith("gang") else None,
        keep_changes=KEPT_CHANGES_OF_DELETED if name == "long-lists" else KEPT_CHANGES,
    )
    trial.api.put(make_namespace(TENANT, labels={"name": TENANT}))
    trial.api.put(make_namespace(OTHERS, labels={"name": OTHERS}))
    for index in range(options.nodes):
        trial.api.put(_node(index))
    sampler = StackSampler(trial)
    async with _running(trial):
        before = await trial.cpu_of_ordinary_pods(options.pods)
        if options.where:
            sampler.start()
        await ATTACKS[name](trial)
        await asyncio.sleep(0.5)
        await trial.end()
        sampler.ended.set()
        held, late = turns.longest, trial.lateness[:]
        after = await trial.cpu_of_ordinary_pods(options.pods)
    print(
        f"{name:<24} hold {held * 1e3:6.0f} ms   late p50 {statistics.median(late) * 1e3:6.0f} ms, "
        f"max {max(late) * 1e3:6.0f} ms   CPU a pod {before * 1e3:5.2f} -> {after * 1e3:5.2f} ms",
        flush=True,
    )
    for stack, times in sampler.seen.most_common(options.where):
        print(f"  {times} times\n      {stack}")


def main() -> None:
    logging.disable()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attacks", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=[*ATTACKS, "all"], metavar="NAME", help=", ".join(ATTACKS)
    )
    parser.add_argument("--nodes", type=int, default=500, metavar="N")
    parser.add_argument(
        "--pods", type=int, default=50, metavar="N", help="ordinary pods whose CPU is measured"
    )
    parser.add_argument(
        "--where", type=int, default=0, metavar="N", help="print the N places where the loop stood most often"
    )
    options = parser.parse_args()
    for name in ATTACKS if "all" in options.names else options.names:
        turns = Turns()
        loop_factory = partial(asyncio.SelectorEventLoop, turns)
        with collecting_in_portions(), asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(_measure(name, options, turns))


if __name__ == "__main__":
    main()
