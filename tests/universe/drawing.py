"""Draws a universe from a seed: the cluster, what users do to it, and the faults.

In: a seed. Out: a `Universe`. `features` and `moments` add what only some universes have.
"""

from __future__ import annotations

import random
from typing import Final

from tests.universe.features import with_features
from tests.universe.moments import with_moments
from tests.universe.parts import HOST, SPAN_SECONDS, ZONE, Fault, Step, Tree, Universe

OUTCOMES: Final = (
    "unreachable",
    "lost",
    "dropped",
    "twice",
    "hang",
    "conflict",
    "too many",
    "internal",
    "unavailable",
)
PLUGIN_POINTS: Final = ("Reserve", "Permit", "PreBind", "PostBind", "Score")


def draw(seed: int) -> Universe:
    """The universe of a seed."""
    return with_moments(with_features(_Drawing(random.Random(f"universe {seed}")).universe(seed)))


class _Drawing:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def universe(self, seed: int) -> Universe:
        rng = self._rng
        replicas = rng.choice((1, 1, 2))
        profiles = rng.choice((1, 1, 1, 2))
        nodes = tuple(self._node(number) for number in range(rng.randint(2, 8)))
        steps = self._steps(nodes, profiles)
        faults = tuple(self._faults(replicas))
        permits = rng.random() < 0.3
        # No event brings back what a plugin without events rejected, so that it does that, or the queue.
        flushes = rng.random() < 0.3
        rejects = permits or any(fault.kind == "plugin" for fault in faults)
        return Universe(
            seed,
            nodes,
            tuple(sorted(steps, key=lambda step: step.at)),
            faults,
            replicas=replicas,
            posts=rng.random() < 0.5,
            permits=permits,
            profiles=profiles,
            activates=not (rejects and flushes),
            max_unschedulable_seconds=60.0 if rejects and flushes else 1e6,
            percentage_of_nodes_to_score=rng.choice((0, 0, 50, 100)),
        )

    # The cluster

    def _node(self, number: int) -> Tree:
        rng, name = self._rng, f"n{number}"
        labels = {HOST: name}
        if rng.random() < 0.9:
            labels[ZONE] = rng.choice("abc")
        if rng.random() < 0.5:
            labels["disk"] = rng.choice(("ssd", "hdd"))
        if rng.random() < 0.3:
            labels["rank"] = str(rng.randint(1, 9))
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": [self._taint()] if rng.random() < 0.2 else []},
            "status": {"allocatable": self._allocatable()},
        }

    def _allocatable(self) -> Tree:
        rng = self._rng
        found = {
            "cpu": str(rng.choice((1, 2, 4, 8))),
            "memory": f"{rng.choice((1, 2, 4, 8, 16))}Gi",
            "pods": str(rng.choice((3, 5, 10, 30))),
        }
        if rng.random() < 0.2:
            found["example.com/gpu"] = str(rng.choice((1, 2, 4)))
        return found

    def _taint(self) -> Tree:
        rng = self._rng
        taint = {"key": rng.choice(("dedicated", "flaky")), "effect": rng.choice(("NoSchedule", "NoExecute"))}
        if rng.random() < 0.2:
            taint["effect"] = "PreferNoSchedule"
        if rng.random() < 0.5:
            taint["value"] = rng.choice("xy")
        return taint

    # Pods

    def _template(self, number: int, profiles: int) -> Tree:
        """Pods of one template are equal but for their names: the scheduler shares its work between them."""
        rng = self._rng
        requests: Tree = {}
        if rng.random() < 0.85:
            requests["cpu"] = rng.choice(("100m", "250m", "500m", "1", "1500m"))
        if rng.random() < 0.7:
            requests["memory"] = rng.choice(("64Mi", "256Mi", "512Mi", "1Gi", "2Gi"))
        if rng.random() < 0.1:
            requests["example.com/gpu"] = "1"
        container: Tree = {"name": "main", "resources": {"requests": requests}}
        if rng.random() < 0.12:
            container["ports"] = [
                {
                    "containerPort": 80,
                    "hostPort": rng.choice((80, 443)),
                    "protocol": rng.choice(("TCP", "UDP")),
                }
            ]
        spec: Tree = {"containers": [container], "priority": rng.choice((0, 0, 0, 10, 10, 100, 1000))}
        spec["schedulerName"] = rng.choice(("default-scheduler", "second"))
        if profiles == 1:
            spec["schedulerName"] = "default-scheduler"
        labels = {"app": rng.choice(("web", "db", "batch")), "template": str(number)}
        if rng.random() < 0.1:
            spec["initContainers"] = [{"name": "init", "resources": {"requests": {"cpu": "1"}}}]
        if rng.random() < 0.05:
            spec["overhead"] = {"cpu": "100m", "memory": "64Mi"}
        if rng.random() < 0.1:
            spec["nodeSelector"] = {"disk": "ssd"}
        if rng.random() < 0.15:
            spec.setdefault("affinity", {})["nodeAffinity"] = self._node_affinity()
        if rng.random() < 0.3:
            spec["tolerations"] = [self._toleration()]
        if rng.random() < 0.12:
            spec.setdefault("affinity", {})["podAffinity"] = self._pod_terms(labels)
        if rng.random() < 0.2:
            spec.setdefault("affinity", {})["podAntiAffinity"] = self._pod_terms(labels, most=1)
        if rng.random() < 0.2:
            spec["topologySpreadConstraints"] = [self._spread(labels)]
        if rng.random() < 0.15:
            spec["schedulingGates"] = [{"name": "example.com/hold"}]
        if rng.random() < 0.1:
            spec["preemptionPolicy"] = "Never"
        if rng.random() < 0.3:
            spec["terminationGracePeriodSeconds"] = rng.choice((0, 1, 5, 20))
        return {"labels": labels, "namespace": rng.choice(("default", "default", "other")), "spec": spec}

    def _node_affinity(self) -> Tree:
        rng = self._rng
        choices = (
            {"key": ZONE, "operator": "In", "values": rng.sample("abc", 2)},
            {"key": ZONE, "operator": "NotIn", "values": [rng.choice("abc")]},
            {"key": "disk", "operator": "Exists"},
            {"key": "disk", "operator": "DoesNotExist"},
            {"key": "rank", "operator": "Gt", "values": ["4"]},
            {"key": "rank", "operator": "Lt", "values": ["6"]},
        )
        terms = [
            {"matchExpressions": rng.sample(choices, rng.randint(1, 2))} for _ in range(rng.randint(1, 2))
        ]
        return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}

    def _toleration(self) -> Tree:
        rng = self._rng
        toleration: Tree = {"operator": rng.choice(("Exists", "Equal"))}
        if toleration["operator"] == "Equal" or rng.random() < 0.7:
            toleration["key"] = rng.choice(("dedicated", "flaky", "node.kubernetes.io/unschedulable"))
        if toleration["operator"] == "Equal":
            toleration["value"] = rng.choice(("", "x", "y"))
        if rng.random() < 0.5:
            toleration["effect"] = rng.choice(("NoSchedule", "NoExecute"))
        return toleration

    def _selector(self, labels: Tree) -> Tree:
        rng = self._rng
        if rng.random() < 0.5:
            return {"matchLabels": {"app": labels["app"]}}
        if rng.random() < 0.5:
            return {"matchLabels": {"app": rng.choice(("web", "db", "batch"))}}
        values = rng.sample(("web", "db", "batch"), 2)
        return {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}

    def _pod_terms(self, labels: Tree, *, most: int = 2) -> Tree:
        """Anti-affinity has one term: with two, the hint misses pods that match one, as upstream's."""
        rng = self._rng
        terms = []
        for _ in range(min(most, rng.choice((1, 1, 2)))):
            term: Tree = {"labelSelector": self._selector(labels), "topologyKey": rng.choice((ZONE, HOST))}
            if rng.random() < 0.2:
                term["namespaces"] = ["default", "other"]
            terms.append(term)
        return {"requiredDuringSchedulingIgnoredDuringExecution": terms}

    def _spread(self, labels: Tree) -> Tree:
        rng = self._rng
        constraint: Tree = {
            "maxSkew": rng.randint(1, 3),
            "topologyKey": rng.choice((ZONE, HOST)),
            "whenUnsatisfiable": rng.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": self._selector(labels),
        }
        if rng.random() < 0.2 and constraint["whenUnsatisfiable"] == "DoNotSchedule":
            constraint["minDomains"] = rng.randint(2, 4)
        return constraint

    # What happens

    def _steps(self, nodes: tuple[Tree, ...], profiles: int) -> list[Step]:
        rng = self._rng
        templates = [self._template(number, profiles) for number in range(rng.randint(2, 6))]
        steps: list[Step] = []
        names: list[str] = []
        bursts = [rng.uniform(0, SPAN_SECONDS * 0.8) for _ in range(rng.randint(2, 5))]
        for number in range(rng.randint(6, 45)):
            template = rng.choice(templates)
            at = rng.choice(bursts) if rng.random() < 0.7 else rng.uniform(0, SPAN_SECONDS)
            name = f"p{number}"
            key = f"{template['namespace']}/{name}"
            names.append(key)
            spec = dict(template["spec"])
            if rng.random() < 0.04:
                spec["nodeName"] = rng.choice(nodes)["metadata"]["name"]
                spec.pop("schedulingGates", None)
            tree = {
                "metadata": {"name": name, "namespace": template["namespace"], "labels": template["labels"]},
                "spec": spec,
                "status": {"phase": "Pending"},
            }
            steps.append(Step(at, "create pod", key, tree))
            if "schedulingGates" in spec and rng.random() < 0.8:
                steps.append(Step(at + rng.uniform(0, 20), "ungate pod", key))
            if rng.random() < 0.25:
                steps.append(Step(at + rng.expovariate(0.1), "delete pod", key))
            elif rng.random() < 0.25:
                steps.append(Step(at + rng.uniform(1, 40), "finish pod", key))
        for _ in range(rng.randint(0, 15)):
            at = rng.uniform(0, SPAN_SECONDS)
            steps += self._change(at, nodes, names)
        return [step for step in steps if step.at <= SPAN_SECONDS]

    def _change(self, at: float, nodes: tuple[Tree, ...], names: list[str]) -> list[Step]:
        rng = self._rng
        node = rng.choice(nodes)
        name = node["metadata"]["name"]
        match rng.randrange(9):
            case 0:
                labels = {
                    **node["metadata"]["labels"],
                    ZONE: rng.choice("abc"),
                    "disk": rng.choice(("ssd", "hdd")),
                }
                return [Step(at, "relabel node", name, {"labels": labels})]
            case 1:
                taints = [self._taint()] if rng.random() < 0.5 else []
                return [Step(at, "taint node", name, {"taints": taints})]
            case 2:
                later = at + rng.uniform(0.1, 30)
                return [
                    Step(at, "cordon node", name, {"unschedulable": True}),
                    Step(later, "cordon node", name, {"unschedulable": False}),
                ]
            case 3:
                back = at + rng.uniform(0.0, 20)
                return [Step(at, "remove node", name), Step(back, "add node", name, self._node_again(node))]
            case 4:
                return [Step(at, "resize node", name, {"allocatable": self._allocatable()})]
            case 5:
                number = rng.randint(100, 999)
                return [Step(at, "add node", f"n{number}", self._node(number))]
            case 6:
                later = at + rng.uniform(1, 30)
                return [
                    Step(at, "drain node", name),
                    Step(later, "cordon node", name, {"unschedulable": False}),
                ]
            case 7:
                label = {"app": rng.choice(("web", "db", "batch"))}
                return [Step(at, "relabel pod", rng.choice(names), {"labels": label})]
            case _:
                return [Step(at, "recreate pod", rng.choice(names))]

    def _node_again(self, node: Tree) -> Tree:
        if self._rng.random() < 0.5:
            return node
        return {**self._node(0), "metadata": node["metadata"]}

    # Faults

    def _faults(self, replicas: int) -> list[Fault]:
        rng = self._rng
        return [self._fault(rng.choice("ab") if replicas > 1 else "a") for _ in range(rng.randint(0, 7))]

    def _fault(self, replica: str) -> Fault:
        rng = self._rng
        start = rng.uniform(0, SPAN_SECONDS)
        end = min(SPAN_SECONDS, start + rng.choice((0.5, 3.0, 10.0, 30.0)) * rng.random())
        kind = rng.choice(
            (
                "requests",
                "requests",
                "stale lists",
                "stalled watches",
                "ended watches",
                "broken watches",
                "repeated events",
                "plugin",
                "evicted plans",
                "reload",
                "reload",
                "kill",
                "kill",
            )
        )
        subject, share = "", 1.0
        outcomes: tuple[str, ...] = ()
        if "watches" in kind or kind == "repeated events":
            subject = rng.choice(("", "Pod", "Node"))
            share = rng.choice((0.3, 1.0))
        if kind == "stale lists":
            start, end = 0.0, SPAN_SECONDS
        if kind == "requests":
            outcomes = tuple(rng.sample(OUTCOMES, rng.randint(1, 4)))
            share = rng.choice((0.1, 0.5, 1.0))
        if kind == "plugin":
            subject = rng.choice(PLUGIN_POINTS)
            share = rng.choice((0.2, 1.0))
        return Fault(kind, start, end, share, subject, rng.choice((replica, "")), outcomes)
