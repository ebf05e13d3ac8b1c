"""Runs the tour.

In: scenes.yaml, and where to print. Out: a cluster in which the scenes happened; lines with the commands and
results.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import Pod
from kuberth.api.well_known import ZONE
from kuberth.assembly.profiles import full_registry, load_configuration
from kuberth.cluster.nodes import NodeRow
from kuberth.config import FeatureGates
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import KuberthError
from kuberth.framework import CycleState, DependsOn, FilterPlugin, Inputs, Status
from kuberth.local.manifests import Manifest
from kuberth.programs.up.cluster import ClusterSettings, EmbeddedCluster, PageSettings, apply, running_cluster
from kuberth.text.documents import read_file
from kuberth.text.figures import count

_FOLDER: Final = Path(__file__).parent
SHAPES: Final = _FOLDER / "shapes.yaml"
POLL_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 60.0
"""The timeout of a step."""
FEATURE_GATES: Final = {"GenericWorkload": True, "GangScheduling": True}
Print = Callable[[str, str], None]
"""Prints a line in a style: title, text, command, result or code."""


class PodView(NamedTuple):
    """The parts of a pod that a scene reads."""

    node: str
    """"" while it has no node."""
    zone: str
    message: str
    """Why it is pending."""

    @property
    def states(self) -> tuple[str, ...]:
        """The states as which the pod counts in `TourStep.expected`."""
        return ("total", "placed" if self.node else "pending", *(["rejected"] if self.message else []))


class TourPatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A merge patch of an object in the namespace `default`."""

    resource: str
    name: str
    body: dict[str, Any]


class TourStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of the cluster, its kubectl command, and the expected result."""

    command: str
    """The command to print."""
    manifests: list[dict[str, Any]] = []
    """Objects to apply."""
    patch: TourPatch | None = None
    expected: dict[str, dict[str, int]] = {}
    """By prefix of names: the minimum number of pods in each state (`PodView.states`)."""
    result: str = ""
    """The line that describes the result: `{nodes}`, `{zones}` and `{message}` of the pods with the first
    prefix, and `{pending}`, the number of pending pods with any prefix."""
    explain: str = ""
    """A pod to explain with `kuberth explain`."""

    def seen(self, pods: Mapping[str, PodView]) -> str:
        """The line that describes the result; "" while the result is not there yet."""
        groups = [[pod for name, pod in pods.items() if name.startswith(prefix)] for prefix in self.expected]
        for group, wanted in zip(groups, self.expected.values(), strict=True):
            counts = Counter(state for pod in group for state in pod.states)
            if any(counts[state] < number for state, number in wanted.items()):
                return ""
        placed = [pod for pod in groups[0] if pod.node]
        zones = sorted(Counter(pod.zone for pod in placed).items())
        return self.result.format(
            nodes=", ".join(sorted(pod.node for pod in placed)),
            zones=", ".join(f"{number} in zone {zone}" for zone, number in zones),
            message=next((pod.message for pod in groups[0]), ""),
            pending=sum(not pod.node for group in groups for pod in group),
        )


class Scene(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of the tour that shows one feature of the scheduler."""

    title: str
    about: str
    steps: list[TourStep]
    prints_plugin: bool = False
    """Whether the source of the tour's own plugin is printed."""


SCENES: Final = msgspec.convert(read_file(_FOLDER / "scenes.yaml", "the scenes"), list[Scene])


class NeedsDisk(FilterPlugin):
    name = "NeedsDisk"
    inputs = Inputs({"metadata.labels"}, filter=DependsOn.NODE_OBJECT)

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        wanted = pod.metadata.labels.get("disk")
        if wanted is not None and node.labels.get("disk") != wanted:
            return Status.unresolvable(f"node(s) have no {wanted} disk")
        return None


async def play(
    print_line: Print,
    *,
    pause_seconds: float,
    page: bool = True,
    shown_link: Callable[[str], str] = str,
    scenes: Sequence[Scene] = SCENES,
    keep: Callable[[EmbeddedCluster], Any] | None = None,
) -> None:
    """Start an in-memory cluster, run all scenes and stop the cluster, after `keep` if it is given."""
    registry = full_registry({NeedsDisk.name: NeedsDisk})
    enabled = {"multiPoint": {"enabled": [{"name": NeedsDisk.name}]}}
    tree = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": enabled}]}
    config = load_configuration(tree, registry, feature_gates=FEATURE_GATES)
    settings = ClusterSettings(
        shapes=SHAPES,
        port=0,
        config=config,
        registry=registry,
        feature_gates=dict(FeatureGates(FEATURE_GATES)),
        page=PageSettings(0) if page else None,
    )
    async with running_cluster(settings, progress=lambda _line: None) as cluster:
        print_line("text", "A cluster of four simulated nodes runs in this process.")
        if cluster.page_link is not None:
            print_line("text", f"Watch it in a browser: {shown_link(cluster.page_link)}")
        if pause_seconds:
            print_line("text", f"{count(len(scenes), 'scene')}, {pause_seconds:g} seconds apart (--pause).")
        tour = _Tour(cluster, print_line)
        for scene in scenes:
            await asyncio.sleep(pause_seconds)
            await tour.play(scene, pause_seconds)
        print_line("title", "That was the tour")
        print_line("text", "Next: `kuberth up` for a cluster of your own, `kuberth plugin new` for a rule.")
        if keep is not None:
            await keep(cluster)


class _Tour:
    def __init__(self, cluster: EmbeddedCluster, print_line: Print) -> None:
        self._cluster = cluster
        self._print = print_line

    async def play(self, scene: Scene, pause_seconds: float) -> None:
        self._print("title", scene.title)
        self._print("text", scene.about)
        if scene.prints_plugin:
            for line in inspect.getsource(NeedsDisk).splitlines():
                self._print("code", line)
        for number, step in enumerate(scene.steps):
            if number:
                await asyncio.sleep(pause_seconds / 2)
            self._print("command", step.command)
            await self._make_changes(step)
            if step.explain:
                await self._explain(step.explain)
            else:
                self._print("result", await self._wait_for_result(step))

    async def _make_changes(self, step: TourStep) -> None:
        core = self._cluster.core
        for tree in step.manifests:
            await apply(core, Manifest(tree))
        if step.patch is not None:
            await core.patch(
                step.patch.resource,
                step.patch.name,
                step.patch.body,
                content_type="application/merge-patch+json",
                namespace="default",
            )

    async def _wait_for_result(self, step: TourStep) -> str:
        polls = round(PATIENCE_SECONDS / POLL_SECONDS)
        for _ in range(polls):
            line = step.seen(await self._pods())
            if line:
                return line
            await asyncio.sleep(POLL_SECONDS)
        raise KuberthError(
            f"`{step.command}` had no effect within {PATIENCE_SECONDS:.0f}s; the tour ends here"
        )

    async def _pods(self) -> dict[str, PodView]:
        core = self._cluster.core
        zones = {
            node["metadata"]["name"]: node["metadata"].get("labels", {}).get(ZONE, "")
            for node in (await core.list("nodes"))["items"]
        }
        found = {}
        for pod in (await core.list("pods"))["items"]:
            node = pod.get("spec", {}).get("nodeName", "")
            conditions = pod.get("status", {}).get("conditions", [])
            message = next(
                (each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), ""
            )
            if "deletionTimestamp" not in pod["metadata"]:
                found[pod["metadata"]["name"]] = PodView(node, zones.get(node, ""), message)
        return found

    async def _explain(self, pod: str) -> None:
        command = [sys.executable, "-m", "kuberth", "explain", pod]
        command.append(f"--kubeconfig={self._cluster.kubeconfig_path}")
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        output, _ = await process.communicate()
        for line in output.decode(errors="replace").splitlines():
            self._print("code", line)
