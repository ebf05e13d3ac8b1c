"""Draws what only some universes have: budgets, volumes, devices, gangs, licenses, an extender, odd clocks.

In: a universe of nodes and pods, and a generator. Out: the same with more. Objects are trees with their kind.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from tests.universe.parts import HOST, SPAN_SECONDS, ZONE, Fault, Step, Tree, Universe

DRIVER: Final = "csi.example.com"
DEVICE_DRIVER: Final = "gpu.example.com"
FOCUSES: Final = (
    "_add_budgets",
    "_add_volumes",
    "_add_devices",
    "_add_licenses",
    "_add_licenses",
    "_add_gangs",
    "_add_extender",
    "_add_pages",
    "_pause",
    "_reload",
    "_hold",
)
"""Features of which a universe may have much."""


def with_features(universe: Universe) -> Universe:
    """The universe with the features that its seed draws."""
    drawing = _Features(universe, random.Random(f"features {universe.seed}"))
    return drawing.draw()


class _Features:
    def __init__(self, universe: Universe, rng: random.Random) -> None:
        self._rng = rng
        self._universe = universe
        self._objects: list[Tree] = []
        self._steps: list[Step] = []
        self._faults: list[Fault] = []
        self._pods = [step for step in universe.steps if step.verb == "create pod"]
        self._names = [node["metadata"]["name"] for node in universe.nodes]
        self._more: dict[str, Any] = {}
        self._focused = False

    def draw(self) -> Universe:
        rng = self._rng
        self._hurry()
        self._more["patient"] = rng.random() < 0.4
        self._more["work_at_once"] = rng.choice((0, 0, 12))
        features = {
            self._pause: 0.2,
            self._add_budgets: 0.35,
            self._add_volumes: 0.3,
            self._add_devices: 0.3,
            self._add_licenses: 0.3,
            self._add_gangs: 0.2,
            self._add_extender: 0.2,
            self._add_clocks: 0.2,
            self._add_pages: 0.3,
            self._lose_leases: 0.5,
            self._reload: 0.0,
            self._hold: 0.0,
        }
        # Most universes have much of one feature and little of the others.
        focus = rng.choice((None, *FOCUSES))
        for add, share in features.items():
            self._focused = add.__name__ == focus
            if self._focused or rng.random() < (share if focus is None else share / 2):
                add()
        steps = sorted([*self._universe.steps, *self._steps], key=lambda step: step.at)
        return replace(
            self._universe,
            objects=tuple(self._objects),
            steps=tuple(steps),
            faults=(*self._universe.faults, *self._faults),
            **self._more,
        )

    @property
    def _replicas(self) -> int:
        return int(self._more.get("replicas", self._universe.replicas))

    def _at(self, after: float = 0.0) -> float:
        return self._rng.uniform(after, SPAN_SECONDS)

    def _create(self, tree: Tree, at: float) -> None:
        if at <= 0:
            self._objects.append(tree)
        else:
            self._steps.append(Step(min(at, SPAN_SECONDS), "create object", _name(tree), tree))

    def _some_pods(self, share: float) -> list[Step]:
        """All free pods of some templates."""
        templates = sorted({_label(step, "template") for step in self._pods})
        chosen = {template for template in templates if self._rng.random() < share}
        return [
            step
            for step in self._pods
            if _label(step, "template") in chosen and "nodeName" not in step.tree["spec"]
        ]

    def _hurry(self) -> None:
        """Some pods change or go while they are being scheduled."""
        rng = self._rng
        for step in self._pods:
            at = step.at + rng.choice((0.0, 0.1, 2.0)) * rng.random()
            if at > SPAN_SECONDS or rng.random() > 0.15:
                continue
            if rng.random() < 0.5:
                label = {"app": rng.choice(("web", "db", "batch"))}
                self._steps.append(Step(at, "relabel pod", step.name, {"labels": label}))
            elif rng.random() < 0.4:
                tolerations = {"tolerations": [{"operator": "Exists"}]}
                self._steps.append(Step(at, "tolerate pod", step.name, tolerations))
            else:
                verb = rng.choice(("delete pod", "recreate pod"))
                self._steps.append(Step(at, verb, step.name))
        for step in self._universe.steps:
            if step.verb.endswith("node") and self._pods and rng.random() < 0.4:
                # What waits for the node goes at the same moment.
                for pod in rng.choices(self._pods, k=3):
                    verb = rng.choice(("delete pod", "recreate pod", "recreate pod"))
                    self._steps.append(Step(step.at, verb, pod.name))

    # Budgets

    def _add_budgets(self) -> None:
        rng = self._rng
        for number in range(rng.randint(1, 3)):
            tree = {
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"b{number}", "namespace": rng.choice(("default", "default", "other"))},
                "spec": {"selector": {"matchLabels": {"app": rng.choice(("web", "db", "batch"))}}},
                "status": {"disruptionsAllowed": rng.choice((0, 0, 1, 2))},
            }
            self._create(tree, rng.choice((0.0, self._at())))
            for _ in range(rng.randint(0, 4)):
                status = {"disruptionsAllowed": rng.choice((0, 0, 1, 2))}
                self._steps.append(
                    Step(self._at(), "replace object", _name(tree), {**tree, "status": status})
                )
            if rng.random() < 0.2:
                self._steps.append(Step(self._at(), "remove object", _name(tree), tree))

    # Volumes

    def _add_volumes(self) -> None:
        rng = self._rng
        for name, provisioner, mode in (
            ("wait", DRIVER, "WaitForFirstConsumer"),
            ("now", DRIVER, "Immediate"),
            ("local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer"),
        ):
            tree = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
            self._create({**tree, "volumeBindingMode": mode}, rng.choice((0.0, 0.0, self._at())))
        for name in self._names:
            if rng.random() < 0.5:
                self._add_limit(name)
        for number in range(rng.randint(0, 5)):
            self._create(self._volume(number), rng.choice((0.0, self._at())))
        shared = rng.random() < 0.3
        made: set[str] = set()
        for step in self._some_pods(0.5):
            namespace, _, pod = step.name.partition("/")
            # As upstream, a claim for one pod counts by its name alone.
            claim = f"shared-{namespace}" if shared else pod
            if f"{namespace}/{claim}" not in made:
                made.add(f"{namespace}/{claim}")
                self._create(self._claim(namespace, claim), step.at + rng.uniform(-3.0, 3.0))
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
            step.tree["spec"]["volumes"] = [volume]

    def _add_limit(self, node_name: str) -> None:
        rng = self._rng

        def tree() -> Tree:
            driver = {"name": DRIVER, "nodeID": node_name, "allocatable": {"count": rng.randint(1, 3)}}
            return {"kind": "CSINode", "metadata": {"name": node_name}, "spec": {"drivers": [driver]}}

        self._create(tree(), rng.choice((0.0, self._at())))
        if rng.random() < 0.3:
            self._steps.append(Step(self._at(), "replace object", node_name, tree()))

    def _volume(self, number: int) -> Tree:
        rng = self._rng
        key, value = (ZONE, rng.choice("abc")) if rng.random() < 0.5 else (HOST, rng.choice(self._names))
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
        return {
            "kind": "PersistentVolume",
            "metadata": {"name": f"v{number}"},
            "spec": {
                "capacity": {"storage": rng.choice(("1Gi", "5Gi"))},
                "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"],
                "storageClassName": "local",
                "local": {"path": "/data"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
            "status": {"phase": "Available"},
        }

    def _claim(self, namespace: str, name: str) -> Tree:
        rng = self._rng
        return {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "accessModes": [rng.choice(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
                "resources": {"requests": {"storage": rng.choice(("1Gi", "2Gi"))}},
                "storageClassName": rng.choice(("wait", "wait", "now", "local")),
            },
            "status": {"phase": "Pending"},
        }

    # Devices

    def _add_devices(self) -> None:
        rng = self._rng
        expression = f'device.driver == "{DEVICE_DRIVER}" && device.attributes["{DEVICE_DRIVER}"].healthy'
        selectors = [{"cel": {"expression": expression}}]
        tree: Tree = {
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": selectors},
        }
        self._create(tree, rng.choice((0.0, 0.0, self._at())))
        for name in self._names:
            if rng.random() < 0.7:
                self._create(self._slice(name, 1), rng.choice((0.0, 0.0, self._at())))
                if rng.random() < 0.3:
                    self._steps.append(Step(self._at(), "replace object", name, self._slice(name, 2)))
        for count in (1, 2):
            requests = [{"name": "one", "exactly": self._request(count)}]
            spec = {"spec": {"devices": {"requests": requests}}}
            for namespace in ("default", "other"):
                metadata = {"name": f"x{count}", "namespace": namespace}
                self._objects.append({"kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec})
        shared = rng.random() < 0.3
        if shared:
            for namespace in ("default", "other"):
                metadata = {"name": "shared", "namespace": namespace}
                claim = {"kind": "ResourceClaim", "metadata": metadata, "spec": spec["spec"], "status": {}}
                self._create(claim, rng.choice((0.0, self._at())))
        for step in self._some_pods(0.5):
            named: Tree = {"name": "gpu", "resourceClaimTemplateName": f"x{rng.choice((1, 1, 2))}"}
            if shared and rng.random() < 0.3:
                named = {"name": "gpu", "resourceClaimName": "shared"}
            step.tree["spec"]["resourceClaims"] = [named]

    def _request(self, count: int) -> Tree:
        return {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}

    def _slice(self, node_name: str, generation: int) -> Tree:
        rng = self._rng
        devices = [
            {"name": f"d{number}", "attributes": {"healthy": {"bool": rng.random() < 0.85}}}
            for number in range(rng.randint(1, 4))
        ]
        pool = {"name": node_name, "generation": generation, "resourceSliceCount": 1}
        spec = {"driver": DEVICE_DRIVER, "pool": pool, "nodeName": node_name, "devices": devices}
        return {"kind": "ResourceSlice", "metadata": {"name": node_name}, "spec": spec}

    # Gangs

    def _add_gangs(self) -> None:
        rng = self._rng
        self._more |= {"gangs": True, "calm_seconds": 420.0}
        by_template: dict[str, list[Step]] = {}
        for step in self._some_pods(0.6):
            by_template.setdefault(_label(step, "template"), []).append(step)
        for template, steps in sorted(by_template.items()):
            for number in range(rng.randint(1, 2)):
                group = f"g{template}-{number}"
                count = rng.randint(1, 4)
                members = [
                    step
                    for step in steps
                    if "schedulingGroup" not in step.tree["spec"] and _label(step, "license") != "z"
                ]
                members = members[: count + rng.choice((-1, 0, 0, 1))]
                if not members:
                    continue
                for step in members:
                    step.tree["spec"]["schedulingGroup"] = {"podGroupName": group}
                policy: Tree = {"gang": {"minCount": count}} if rng.random() < 0.85 else {"basic": {}}
                tree = {
                    "kind": "PodGroup",
                    "metadata": {"name": group, "namespace": members[0].name.partition("/")[0]},
                    "spec": {"schedulingPolicy": policy},
                }
                self._create(tree, rng.choice((0.0, self._at())))

    # Licenses

    def _add_licenses(self) -> None:
        rng = self._rng
        self._more["licenses"] = True
        for step in self._some_pods(0.9 if self._focused else 0.5):
            metadata = step.tree["metadata"]
            metadata["labels"] = {**metadata["labels"], "license": rng.choice("ggxyz")}
        for namespace in ("default", "other"):
            for name in "gxyz":
                tree = {
                    "kind": "License",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"valid": rng.random() < 0.5},
                }
                self._create(tree, rng.choice((0.0, self._at())))
                for _ in range(rng.randint(0, 20 if self._focused else 4)):
                    spec = {"valid": rng.random() < 0.5}
                    self._steps.append(
                        Step(self._at(), "replace object", _name(tree), {**tree, "spec": spec})
                    )
                if rng.random() < 0.2:
                    self._steps.append(Step(self._at(), "remove object", _name(tree), tree))

    # What is around the cluster

    def _add_extender(self) -> None:
        rng = self._rng
        if "gangs" in self._more:
            return  # pods that extenders decide about are tried alone
        self._more["extender"] = rng.choice(("strict", "strict", "ignorable"))
        for step in self._pods if self._focused else ():
            # A cycle that waits for the extender sees the pod as it was.
            at = step.at + rng.choice((0.02, 0.05, 3.0)) * rng.random()
            if rng.random() < 0.7 and at < SPAN_SECONDS:
                tolerations = {"tolerations": [{"operator": "Exists"}]}
                self._steps.append(Step(at, "tolerate pod", step.name, tolerations))
        for name in self._names if self._focused else ():
            if int(name[1:]) % 3 and rng.random() < 0.9:  # the extender refuses the others
                taints = [{"key": "flaky", "effect": "NoSchedule"}]
                self._steps.append(Step(self._at() / 9, "taint node", name, {"taints": taints}))
        for _ in range(rng.randint(0, 8 if self._focused else 3)):
            start = self._at()
            end = min(SPAN_SECONDS, start + rng.uniform(0.5, 20.0))
            outcomes = tuple(rng.sample(("slow", "error", "rubbish", "refused", "overslow"), 2))
            self._faults.append(Fault("extender", start, end, rng.choice((0.3, 1.0)), outcomes=outcomes))

    def _add_clocks(self) -> None:
        """Processes disagree about the time; that of the server jumps, and that of a lone scheduler, too.

        A lease is kept by clocks that run at the same speed, so that two schedulers' do.
        """
        rng = self._rng
        self._more["skewed"] = True
        for _ in range(rng.randint(0, 3)):
            start = self._at()
            subject = rng.choice(("server", "scheduler") if self._replicas == 1 else ("server",))
            self._faults.append(Fault("clock jump", start, start, rng.random(), subject))

    def _lose_leases(self) -> None:
        """A leader can write, but not renew its lease."""
        rng = self._rng
        for _ in range(rng.randint(1, 2) if self._replicas > 1 else 0):
            start = self._at()
            end = min(SPAN_SECONDS, start + rng.uniform(8.0, 30.0))
            outcomes = (rng.choice(("unreachable", "hang", "unavailable")),)
            replica = "" if self._focused else rng.choice("ab")
            self._faults.append(Fault("lost connection", start, end, 1.0, "lease", replica, outcomes))
            if self._focused:
                self._press(start + 9.0)

    def _press(self, at: float) -> None:
        """Important pods come when a leader that could not renew may not write any more."""
        rng = self._rng
        for step in rng.sample(self._pods, min(4, len(self._pods))):
            namespace = step.name.partition("/")[0]
            name = f"u{len(self._steps)}"
            requests = {"cpu": rng.choice(("1", "1500m", "3"))}
            spec = {
                "containers": [{"name": "main", "resources": {"requests": requests}}],
                "priority": 2000,
                "schedulerName": step.tree["spec"]["schedulerName"],
            }
            metadata = {"name": name, "namespace": namespace, "labels": {"app": "web", "template": "urgent"}}
            tree = {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
            moment = min(SPAN_SECONDS, at + rng.uniform(0.0, 4.0))
            self._steps.append(Step(moment, "create pod", f"{namespace}/{name}", tree))

    def _reload(self) -> None:
        """Configurations are loaded again and again, some while pods are held at Permit."""
        rng = self._rng
        self._more["permits"] = self._universe.permits or rng.random() < 0.5
        for _ in range(3):
            start = self._at()
            end = min(SPAN_SECONDS, start + rng.uniform(1.0, 30.0))
            self._faults.append(Fault("reload", start, end))

    def _hold(self) -> None:
        """Pods are held at Permit, and plugins fail."""
        rng = self._rng
        self._more |= {"permits": True, "activates": rng.random() < 0.7}
        if not self._more["activates"]:
            self._more["max_unschedulable_seconds"] = 60.0
        for point in ("Reserve", "Permit", "PreBind"):
            start = self._at()
            end = min(SPAN_SECONDS, start + rng.uniform(1.0, 30.0))
            self._faults.append(Fault("plugin", start, end, rng.choice((0.2, 0.6)), point))

    def _pause(self) -> None:
        """All processes are stopped for a while, some in the middle of a write."""
        rng = self._rng
        if self._focused:
            self._more |= {"replicas": 2, "posts": True}
            self._lose_leases()
        for _ in range(rng.randint(1, 5 if self._focused else 3)):
            kind = rng.choice(("pause", "paused writes", "paused writes"))
            self._faults.append(Fault(kind, self._at(), SPAN_SECONDS, rng.uniform(0.1, 1.0)))
        for _ in range(rng.randint(0, 3) if self._replicas > 1 else 0):
            self._steps.append(Step(self._at(5.0), "take lease", "kube-system/kube-scheduler"))

    def _add_pages(self) -> None:
        self._faults.append(Fault("paged lists", 0.0, SPAN_SECONDS, self._rng.choice((0.5, 1.0))))


def _name(tree: Tree) -> str:
    metadata = tree["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else str(metadata["name"])


def _label(step: Step, name: str) -> str:
    return str(step.tree["metadata"]["labels"].get(name, ""))
