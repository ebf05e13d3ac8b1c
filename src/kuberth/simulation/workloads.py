"""Reads the workload of a simulation.

In: a path. Out: arrivals, and objects that must exist first. The file name extension decides the format:
.csv and .jsonl are traces, .yaml, .yml and .json are manifests of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kuberth.api.core import Pod
from kuberth.api.scheduling import PriorityClass
from kuberth.api.wire import to_builtins
from kuberth.errors import ConfigError
from kuberth.local.hollow.annotations import RUN_SECONDS
from kuberth.local.manifests import Manifest, read_manifests
from kuberth.simulation.arrivals import MAX_SECONDS, Arrival, problem_of
from kuberth.simulation.clusters import as_object, is_managed
from kuberth.simulation.published import alibaba_gpu, google_2019
from kuberth.simulation.traces import read_trace

ARRIVAL_SECONDS: Final = "kuberth.dev/arrival-seconds"
"""The annotation with the arrival time of a pod in a manifest."""

FORMATS: Final[Mapping[str, Callable[[Path], list[Arrival]]]] = {
    "kuberth": read_trace,
    "alibaba-gpu-2023": alibaba_gpu.read_pods,
    "google-2019": google_2019.read_instances,
}
"""Formats of traces."""


class PlannedWorkload(NamedTuple):
    """The workload: arrivals, and objects that must exist first."""

    arrivals: Sequence[Arrival]
    objects: Sequence[Any] = ()
    managed: Sequence[Manifest] = ()
    """Objects that controllers act on."""


def read_workload(path: Path | str, *, format_: str = "kuberth") -> PlannedWorkload:
    """What arrives, from a trace or manifests; `format_` is that of `kuberth simulate --trace-format`."""
    path = Path(path)
    if format_ == "kuberth" and (path.is_dir() or path.suffix in (".yaml", ".yml", ".json")):
        return _read_pods(path)
    return PlannedWorkload(FORMATS[format_](path))


def _read_pods(path: Path) -> PlannedWorkload:
    pods: list[tuple[str, Pod]] = []
    objects: list[Any] = []
    managed: list[Manifest] = []
    for manifest in read_manifests(path):
        if is_managed(manifest):
            arrival_of(manifest)
            managed.append(manifest)
            continue
        obj = as_object(manifest)
        if isinstance(obj, Pod):
            pods.append((str(manifest), obj))
        else:
            objects.append(obj)
    if not pods and not managed:
        raise ConfigError(f"{path}: these manifests have no pod, and no workload that creates pods")
    priorities = {each.metadata.name: each.value for each in objects if isinstance(each, PriorityClass)}
    return PlannedWorkload([_as_arrival(pod, where, priorities) for where, pod in pods], objects, managed)


def arrival_of(manifest: Manifest) -> float:
    """Its arrival time, from an annotation."""
    notes = manifest.tree["metadata"].get("annotations")
    at = _seconds(notes, ARRIVAL_SECONDS, str(manifest)) if isinstance(notes, dict) else None
    if at is not None and not 0 <= at < MAX_SECONDS:
        raise ConfigError(f"{manifest}: the annotation {ARRIVAL_SECONDS} is zero or more seconds, got {at:g}")
    return at or 0.0


def _as_arrival(pod: Pod, where: str, priorities: Mapping[str, int]) -> Arrival:
    name, spec = pod.spec.priority_class_name, pod.spec
    if name and spec.priority is None:
        if name not in priorities:
            raise ConfigError(f"{where}: its PriorityClass {name} is not among the manifests")
        spec = msgspec.structs.replace(spec, priority=priorities[name])
    return as_arrival(msgspec.structs.replace(pod, spec=spec), where=where)


def as_arrival(pod: Pod, *, where: str, at: float | None = None, duration: float | None = None) -> Arrival:
    """A pod as a line of a trace; arrival and run time come from annotations, unless given."""
    notes = pod.metadata.annotations
    arrival = Arrival(
        arrival=_seconds(notes, ARRIVAL_SECONDS, where) or 0.0 if at is None else at,
        duration=_seconds(notes, RUN_SECONDS, where) if duration is None else duration,
        name=pod.metadata.name,
        tenant=pod.metadata.namespace or "default",
        priority=pod.spec.priority or 0,
        labels=dict(pod.metadata.labels),
        spec=to_builtins(msgspec.structs.replace(pod.spec, node_name="")),
    )
    if (problem := problem_of(arrival)) is not None:
        raise ConfigError(f"{where}: {problem[0]}: {problem[1]}")
    return arrival


def _seconds(notes: Mapping[str, str], name: str, where: str) -> float | None:
    if name not in notes:
        return None
    try:
        return float(notes[name])
    except ValueError as error:
        raise ConfigError(f"{where}: the annotation {name} is a number, got {notes[name]!r}") from error
