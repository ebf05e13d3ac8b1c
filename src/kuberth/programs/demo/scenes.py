"""The scenes of the tour: what is created, and the expected result.

Data only: `kuberth.programs.demo.playing` runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

SHAPES: Final = """\
- name: plain
  count: 3
  capacity: {cpu: "4", memory: 8Gi}
- name: ssd
  count: 1
  labels: {disk: ssd}
  capacity: {cpu: "4", memory: 8Gi}
  zones: [a]
"""
FEATURE_GATES: Final = {"GenericWorkload": True, "GangScheduling": True}

Pods = Mapping[str, "PodView"]
"""The pods of a scene by name."""


@dataclass(frozen=True, slots=True)
class PodView:
    """The parts of a pod that a scene reads."""

    node: str
    """"" while it has no node."""
    zone: str
    message: str
    """Why it is pending."""


@dataclass(frozen=True, slots=True)
class TourStep:
    """A change of the cluster, its kubectl command, and the expected result."""

    command: str
    """The command to print; none: the step is about what happened before."""
    seen: Callable[[Pods], str]
    """The line that describes the result; "" while the result is not there yet."""
    manifests: str = ""
    """YAML to apply."""
    ungate: str = ""
    """A pod whose scheduling gates are removed."""
    scale: tuple[str, int] | None = None
    """A Deployment, and its number of replicas."""
    explain: str = ""
    """A pod to explain with `kuberth explain`."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A part of the tour that shows one feature of the scheduler."""

    title: str
    about: str
    steps: Sequence[TourStep]


def _of(pods: Pods, prefix: str) -> list[PodView]:
    return [pod for name, pod in pods.items() if name.startswith(prefix)]


def _placed(pods: Pods, prefix: str) -> list[PodView]:
    return [pod for pod in _of(pods, prefix) if pod.node]


def _web(pods: Pods) -> str:
    placed = _placed(pods, "web-")
    if len(placed) < 6:
        return ""
    zones = sorted({pod.zone for pod in placed})
    counts = ", ".join(f"{sum(pod.zone == zone for pod in placed)} in zone {zone}" for zone in zones)
    return f"6 pods run: {counts}"


def _gated(pods: Pods) -> str:
    pod = pods.get("patient")
    return "patient is SchedulingGated: no node was even looked at" if pod and not pod.node else ""


def _ungated(pods: Pods) -> str:
    pod = pods.get("patient")
    return f"the gate is gone, and patient runs on {pod.node}" if pod and pod.node else ""


def _batch(pods: Pods) -> str:
    return "12 pods run, and the cluster is full" if len(_placed(pods, "batch-")) == 12 else ""


def _urgent(pods: Pods) -> str:
    pod, batch = pods.get("urgent"), _of(pods, "batch-")
    waiting = sum(not each.node for each in batch)
    if pod is None or not pod.node or len(batch) < 12 or not waiting:  # the Deployment replaces evicted pods
        return ""
    return f"urgent runs on {pod.node}; batch pods of lower priority gave way, and {waiting} wait for room"


def _gang_waits(pods: Pods) -> str:
    gang = _of(pods, "gang-")
    return (
        "3 pods, none of them bound: not all of them fit"
        if len(gang) == 3 and not _placed(pods, "gang-")
        else ""
    )


def _gang_runs(pods: Pods) -> str:
    gang = _placed(pods, "gang-")
    return (
        f"there is room for all, and all 3 run: {', '.join(sorted(pod.node for pod in gang))}"
        if len(gang) == 3
        else ""
    )


def _disk(pods: Pods) -> str:
    pod = pods.get("database")
    return f"database runs on {pod.node}, the only node with that label" if pod and pod.node else ""


def _huge(pods: Pods) -> str:
    pod = pods.get("huge")
    return pod.message if pod is not None and pod.message else ""


def _pod(name: str, cpu: str, *, more: str = "", labels: str = "") -> str:
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{{labels}}}
spec:
{more}  containers:
  - name: main
    image: registry.example/app
    resources: {{requests: {{cpu: "{cpu}"}}}}
"""


def _deployment(name: str, replicas: int, cpu: str, more: str = "") -> str:
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata:
      labels: {{app: {name}}}
    spec:
{more}      containers:
      - name: main
        image: registry.example/app
        resources: {{requests: {{cpu: "{cpu}"}}}}
"""


_SPREAD: Final = """\
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
"""
_URGENT: Final = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata:
  name: urgent
value: 1000
---
"""
_GROUP: Final = """\
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata:
  name: gang
spec:
  schedulingPolicy: {gang: {minCount: 3}}
---
"""
_IN_GANG: Final = "  schedulingGroup: {podGroupName: gang}\n"

SCENES: Final = (
    Scene(
        "Spread",
        "Six pods that want to be spread over zones.",
        [TourStep("kubectl apply -f web.yaml", _web, _deployment("web", 6, "100m", _SPREAD))],
    ),
    Scene(
        "Gates",
        "A pod with a scheduling gate waits until the gate is removed.",
        [
            TourStep(
                "kubectl apply -f patient.yaml",
                _gated,
                _pod("patient", "100m", more="  schedulingGates: [{name: example.com/review}]\n"),
            ),
            TourStep("kubectl patch pod patient ...", _ungated, ungate="patient"),
        ],
    ),
    Scene(
        "Preemption",
        "Batch pods fill the cluster; an urgent pod comes.",
        [
            TourStep("kubectl apply -f batch.yaml", _batch, _deployment("batch", 12, "1")),
            TourStep(
                "kubectl apply -f urgent.yaml",
                _urgent,
                _URGENT + _pod("urgent", "3", more="  priorityClassName: urgent\n"),
            ),
        ],
    ),
    Scene(
        "A gang",
        "Three pods that are of use only together.",
        [
            TourStep(
                "kubectl apply -f gang.yaml",
                _gang_waits,
                _GROUP + "---\n".join(_pod(f"gang-{number}", "2", more=_IN_GANG) for number in range(3)),
            ),
            TourStep("kubectl scale deployment batch --replicas=0", _gang_runs, scale=("batch", 0)),
        ],
    ),
    Scene(
        "A rule of your own",
        "A plugin is a Python class. This one is in force in this cluster:",
        [
            TourStep(
                "kubectl apply -f database.yaml",
                _disk,
                _pod("database", "100m", labels="disk: ssd"),
            )
        ],
    ),
    Scene(
        "Why?",
        "A pod that fits nowhere, and what would help it.",
        [
            TourStep("kubectl apply -f huge.yaml", _huge, _pod("huge", "6")),
            TourStep("kuberth explain huge", lambda _pods: "", explain="huge"),
        ],
    ),
)
