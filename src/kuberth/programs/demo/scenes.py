"""The scenes of the tour: what is created, and the expected result.

In: scenes.yaml, and the pods of a cluster. Out: `SCENES`, and the line that describes a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.text.documents import read_file

_FOLDER: Final = Path(__file__).parent
SHAPES: Final = _FOLDER / "shapes.yaml"


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
