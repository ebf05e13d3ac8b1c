"""Draws moments at which a mistake shows: the one event that helps a pod comes, and little else happens.

In: a universe with its features. Out: the same with moments of one kind in half of the universes. Each has
pods of its own, so that steps of others rarely touch them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tests.universe.parts import HOST, SPAN_SECONDS, Fault, Step, Tree, Universe


def with_moments(universe: Universe) -> Universe:
    """The universe with the moments that its seed draws."""
    rng = random.Random(f"moments {universe.seed}")
    if rng.random() < 0.5:
        return universe
    drawing = _Drawing(universe, rng)
    rng.choice(MOMENTS)(drawing)
    return replace(
        universe,
        nodes=tuple(drawing.nodes),
        objects=(*universe.objects, *drawing.objects),
        steps=tuple(sorted([*universe.steps, *drawing.steps], key=lambda step: step.at)),
        faults=(*universe.faults, *drawing.faults),
        **drawing.more,
    )


@dataclass
class _Drawing:
    """What is added to a universe."""

    universe: Universe
    rng: random.Random
    objects: list[Tree] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    nodes: list[Tree] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = list(self.universe.nodes)

    def times(self, most: int) -> list[float]:
        """Some moments, the last of them often at the end, after which nothing else happens."""
        found = [self.rng.uniform(1.0, SPAN_SECONDS - 12.0) for _ in range(self.rng.randint(1, most))]
        return [*found, SPAN_SECONDS - 12.0] if self.rng.random() < 0.6 else found

    def step(self, at: float, verb: str, name: str, tree: Tree | None = None) -> None:
        self.steps.append(Step(min(at, SPAN_SECONDS), verb, name, tree or {}))

    def pods(self, at: float, number: int, *, labels: Tree | None = None, **spec: Any) -> list[str]:
        """Equal pods that are created one after the other; the result are their keys.

        `stays`: a finalizer keeps them for a while after they are deleted.
        """
        names = []
        for _ in range(number):
            name = f"m{len(self.steps)}"
            requests = spec.get("requests", {"cpu": "50m"})
            kept = {"finalizers": ["example.com/kept"]} if spec.get("stays") else {}
            tree = {
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {"app": "moment", "template": "m", **(labels or {})},
                    **kept,
                },
                "spec": {
                    "containers": [{"name": "main", "resources": {"requests": requests}}],
                    "priority": 10,
                    "schedulerName": "default-scheduler",
                    **{part: value for part, value in spec.items() if part not in ("requests", "stays")},
                },
                "status": {"phase": "Pending"},
            }
            names.append(f"default/{name}")
            self.step(at, "create pod", names[-1], tree)
        return names

    def node(self, name: str, *, pods: int = 30, taints: list[Tree] | None = None) -> Tree:
        """A node that only pods of moments select."""
        tree = {
            "metadata": {"name": name, "labels": {HOST: name, "moment": "yes"}},
            "spec": {"taints": taints or []},
            "status": {"allocatable": {"cpu": "8", "memory": "8Gi", "pods": str(pods)}},
        }
        self.nodes.append(tree)
        return tree


ONLY: Final[Tree] = {"nodeSelector": {"moment": "yes"}}
"""The spec of pods that need a node of a moment."""
OWN: Final[Tree] = {"key": "moment", "effect": "NoSchedule"}
"""The taint of nodes of a moment, which keeps other pods away."""
AT_HOME: Final[Tree] = {**ONLY, "tolerations": [{"key": "moment", "operator": "Exists"}]}


def _bind_slowly(draw: _Drawing) -> None:
    """Bindings hang, fail or are not answered; meanwhile their pods go, or are made again."""
    rng = draw.rng
    draw.more["posts"] = rng.random() < 0.7
    for at in draw.times(3):
        outcomes = rng.choice((("hang",), ("lost",), ("dropped",), ("hang", "dropped"), ("lost", "internal")))
        end = at + rng.choice((0.5, 4.0, 10.0))
        draw.faults.append(Fault("requests", at, end, rng.choice((0.5, 1.0)), "bind", "", outcomes))
        for name in draw.pods(at + 0.1, rng.choice((3, 8, 30)), stays=rng.random() < 0.4):
            later = at + 0.1 + rng.choice((0.05, 1.0, 6.0)) * rng.random()
            if rng.random() < 0.5:
                draw.step(later, rng.choice(("delete pod", "recreate pod", "recreate pod")), name)


def _fill_up(draw: _Drawing) -> None:
    """A node has room for one or two pods, and those that have it are not bound."""
    rng = draw.rng
    draw.node("n91", pods=rng.randint(1, 2), taints=[OWN])
    if rng.random() < 0.5:
        draw.more |= {"permits": True, "activates": False, "max_unschedulable_seconds": 60.0}
    for at in draw.times(1):
        draw.pods(at, rng.randint(3, 6), **AT_HOME)
        if not draw.more:
            outcomes = rng.choice((("internal",), ("conflict",), ("dropped",)))
            draw.faults.append(Fault("requests", at, at + 11.0, 1.0, "bind", "", outcomes))


def _license_late(draw: _Drawing) -> None:
    """A license becomes valid while its pods are held at Permit, after others that do not help."""
    rng = draw.rng
    if draw.universe.licenses:
        return
    draw.more["licenses"] = True
    licenses = {name: _license(name, valid=False) for name in "gxz"}
    draw.objects += licenses.values()
    for at in draw.times(2):
        draw.pods(at, rng.randint(1, 3), labels={"license": "z"})
        for name in rng.choices("xg", k=rng.randint(0, 3)):
            draw.step(at + rng.uniform(0.0, 0.2), "replace object", f"default/{name}", licenses[name])
        draw.step(at + rng.uniform(0.2, 3.0), "replace object", "default/z", _license("z", valid=True))
        draw.step(at + rng.uniform(8.0, 12.0), "replace object", "default/z", licenses["z"])


def _license_ends(draw: _Drawing) -> None:
    """Pods that fit nowhere lose the license that their queue needs, and then a node comes."""
    rng = draw.rng
    if draw.universe.licenses:
        return
    draw.more["licenses"] = True
    invalid, valid = _license("g", valid=False), _license("g", valid=True)
    draw.objects.append(valid)
    for number, at in enumerate(draw.times(2)):
        draw.pods(at, rng.randint(1, 4), labels={"license": "g"}, nodeSelector={HOST: f"n9{number}"})
        draw.step(at + 2.0, "replace object", "default/g", invalid)
        tree = {**draw.node(f"n9{number}")}
        draw.nodes.pop()
        draw.step(at + 2.0 + rng.choice((0.0, 1.0)), "add node", f"n9{number}", tree)
        draw.step(at + rng.uniform(4.0, 6.0), "replace object", "default/g", valid)


def _spread_evenly(draw: _Drawing) -> None:
    """Pods may go on only when a node that none of them can use leaves, or counts for more."""
    rng = draw.rng
    for name in ("n91", "n92"):
        draw.node(name, taints=[OWN])
    closed = [{"key": "closed", "effect": "NoSchedule"}, OWN]
    draw.node("n93", taints=closed)
    for number, at in enumerate(draw.times(1)):
        labels = {"app": f"even{number}"}
        spread = {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
        names = draw.pods(at, 4, labels=labels, topologySpreadConstraints=[spread], **AT_HOME)
        later = at + rng.uniform(2.0, 4.0)
        match rng.randrange(4):
            case 0:
                draw.step(later, "remove node", "n93")
            case 1:
                for name in names[:2]:
                    draw.step(later, "relabel pod", name, {"labels": {"app": "odd"}})
            case 2:
                draw.pods(later, 1, labels=labels, nodeName="n93")
            case _:
                draw.step(later, "delete pod", names[0])


def _tolerate_one(draw: _Drawing) -> None:
    """Of equal pods one tolerates another taint, and then the node has that one."""
    rng = draw.rng
    first, second = {"key": "first", "effect": "NoSchedule"}, {"key": "second", "effect": "NoSchedule"}
    draw.node("n91", taints=[first])
    for at in draw.times(1):
        names = draw.pods(at, rng.randint(2, 5), **ONLY)
        chosen = {"tolerations": [{"key": "second", "operator": "Exists"}]}
        draw.step(at + rng.choice((0.0, 0.02, 2.0)), "tolerate pod", rng.choice(names), chosen)
        draw.step(at + 3.0, "taint node", "n91", {"taints": [second]})
        draw.step(at + 9.0, "taint node", "n91", {"taints": [first]})


def _go_in_portions(draw: _Drawing) -> None:
    """An event that concerns many pods comes with the end of some of them."""
    rng = draw.rng
    draw.more["work_at_once"] = rng.choice((1, 3, 12))
    closed = [{"key": "closed", "effect": "NoSchedule"}]
    draw.node("n91", taints=closed)
    for at in draw.times(1):
        names = [
            name
            for number in range(5)
            for name in draw.pods(at, 3, requests={"cpu": f"{50 + number}m"}, **ONLY)
        ]
        moment = at + 3.0
        draw.step(moment, "taint node", "n91")
        for name in rng.sample(names, 6):
            draw.step(moment, rng.choice(("delete pod", "recreate pod", "relabel pod")), name, {"labels": {}})
        draw.step(moment + 6.0, "taint node", "n91", {"taints": closed})


def _list_again(draw: _Drawing) -> None:
    """Pods are made again while the watch of pods breaks, so that a list shows only the new ones."""
    rng = draw.rng
    for at in draw.times(2):
        names = draw.pods(at, rng.randint(3, 6), requests={"cpu": rng.choice(("50m", "90"))})
        draw.faults.append(Fault("broken watches", at + 2.0, at + 3.0, 1.0, rng.choice(("Pod", ""))))
        for name in names:
            draw.step(at + 2.0 + rng.random(), "recreate pod", name)


def _complete_gang(draw: _Drawing) -> None:
    """The last pod of a gang comes late."""
    rng = draw.rng
    if draw.universe.extender:
        return  # pods that extenders decide about are tried alone
    draw.more |= {"gangs": True, "calm_seconds": 420.0}
    draw.node("n91", taints=[OWN])
    for number, at in enumerate(draw.times(2)):
        count = rng.randint(2, 4)
        metadata = {"name": f"late{number}", "namespace": "default"}
        policy = {"schedulingPolicy": {"gang": {"minCount": count}}}
        draw.objects.append({"kind": "PodGroup", "metadata": metadata, "spec": policy})
        grouped: Tree = {"schedulingGroup": {"podGroupName": f"late{number}"}, **AT_HOME}
        draw.pods(at, count - 1, **grouped)
        draw.pods(at + rng.uniform(3.0, 12.0), 1, **grouped)


def _kill_preemptor(draw: _Drawing) -> None:
    """A process is killed while the victim of a preemption ends."""
    rng = draw.rng
    draw.node("n91", pods=2, taints=[OWN])
    for at in draw.times(2):
        slow: Tree = {"terminationGracePeriodSeconds": 30, **AT_HOME}
        draw.pods(at, 2, **slow)
        draw.pods(at + 1.0, 1, **{**AT_HOME, "priority": 500})
        draw.faults.append(
            Fault("kill", at + 1.0 + rng.choice((0.05, 0.5, 3.0)) * rng.random(), SPAN_SECONDS)
        )


def _hold_late(draw: _Drawing) -> None:
    """At the end pods are held at Permit; some are activated before they are rejected; nothing follows."""
    rng = draw.rng
    draw.more |= {"permits": True, "activates": True, "max_unschedulable_seconds": 1e6}
    for name in draw.pods(SPAN_SECONDS - rng.uniform(0.5, 5.0), rng.randint(4, 12)):
        if rng.random() < 0.2:
            draw.step(SPAN_SECONDS, "relabel pod", name, {"labels": {"app": "held"}})


def _tolerate_in_flight(draw: _Drawing) -> None:
    """A pod comes to tolerate the only node that can have it while the extender refuses another one."""
    rng = draw.rng
    if draw.universe.gangs:
        return  # pods that extenders decide about are tried alone
    draw.more["extender"] = "strict"
    closed = [{"key": "closed", "effect": "NoSchedule"}, OWN]
    draw.node("n91", taints=closed)
    draw.node("n93", taints=[OWN])  # refused by the extender
    for at in draw.times(3):
        draw.faults.append(Fault("extender", at, at + 2.0, 1.0, outcomes=("slow",)))
        for name in draw.pods(at, rng.randint(1, 3), **AT_HOME):
            later = at + rng.choice((0.02, 0.1, 1.0)) * rng.random()
            chosen = {"tolerations": [{"key": "closed", "operator": "Exists"}]}
            draw.step(later, "tolerate pod", name, chosen)


def _license(name: str, *, valid: bool) -> Tree:
    return {
        "kind": "License",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"valid": valid},
    }


MOMENTS: Final[tuple[Callable[[_Drawing], None], ...]] = (
    _bind_slowly,
    _bind_slowly,
    _fill_up,
    _license_late,
    _license_late,
    _license_ends,
    _spread_evenly,
    _tolerate_one,
    _go_in_portions,
    _list_again,
    _complete_gang,
    _kill_preemptor,
    _hold_late,
    _tolerate_in_flight,
)
