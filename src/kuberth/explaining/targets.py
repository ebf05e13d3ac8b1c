"""The target of an explanation: a pod, or a workload with a pod template, by name.

In: words of a command line or a request, and the existing pods. Out: the pod, or an error that suggests
similar names.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kuberth.api.core import Pod
from kuberth.errors import ConfigError
from kuberth.informers.store import object_key

SUGGESTED: Final = 3
UNKNOWN_POD: Final = "there is no pod"
"""The beginning of the error for a pod that does not exist."""


class WorkloadKind(NamedTuple):
    """A kind whose objects have a pod template."""

    plural: str
    api_version: str
    template: tuple[str, ...] = ("spec", "template")

    @property
    def path(self) -> str:
        """The API path of the group and version."""
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


WORKLOADS: Final[Mapping[str, WorkloadKind]] = {
    "Deployment": WorkloadKind("deployments", "apps/v1"),
    "ReplicaSet": WorkloadKind("replicasets", "apps/v1"),
    "StatefulSet": WorkloadKind("statefulsets", "apps/v1"),
    "DaemonSet": WorkloadKind("daemonsets", "apps/v1"),
    "Job": WorkloadKind("jobs", "batch/v1"),
    "CronJob": WorkloadKind("cronjobs", "batch/v1", ("spec", "jobTemplate", "spec", "template")),
    "ReplicationController": WorkloadKind("replicationcontrollers", "v1"),
}
_SHORT: Final = {
    "po": "pod", "deploy": "deployment", "rs": "replicaset", "sts": "statefulset", "ds": "daemonset",
    "cj": "cronjob", "rc": "replicationcontroller",
}  # fmt: skip


class ExplainTarget(NamedTuple):
    """`Pod` or a workload's kind, and a name."""

    kind: str
    name: str


def read_target(words: Sequence[str]) -> ExplainTarget:
    """`pod NAME`, `pod/NAME`, `deploy/NAME`, or a pod's NAME alone."""
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) == 1:
        parts = ["pod", parts[0]]
    if len(parts) != 2 or not all(parts):
        raise ConfigError(f"expected pod NAME, KIND/NAME or -f FILE, got {' '.join(words)!r}")
    given, name = parts
    kind = _SHORT.get(given.lower(), given.lower()).removesuffix("s")
    known = {"pod": "Pod"} | {name.lower(): name for name in WORKLOADS}
    if kind not in known:
        raise ConfigError(f"{given}: there is no such kind with pods; known are {', '.join(sorted(known))}")
    return ExplainTarget(known[kind], name)


def find_pod(objects: Iterable[Any], target: ExplainTarget, namespace: str) -> Pod:
    """The pod of this name; raises ConfigError with similar names if there is none."""
    pods = {object_key(obj): obj for obj in objects if isinstance(obj, Pod)}
    pod = pods.get(f"{namespace}/{target.name}")
    if pod is None:
        raise unknown_pod(pods.values(), target, namespace)
    return pod


def unknown_pod(pods: Iterable[Pod], target: ExplainTarget, namespace: str) -> ConfigError:
    """The error for a name that no pod has, with its other namespace or similar names."""
    here: list[str] = []
    for pod in pods:
        name, where = pod.metadata.name, pod.metadata.namespace
        if name == target.name:
            return ConfigError(
                f"{UNKNOWN_POD} {name} in namespace {namespace}, but one in {where}: use -n {where}"
            )
        if where == namespace:
            here.append(name)
    return unknown_name(target, namespace, here)


def unknown_name(target: ExplainTarget, namespace: str, names: Sequence[str]) -> ConfigError:
    near = difflib.get_close_matches(target.name, names, n=SUGGESTED, cutoff=0.4)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return ConfigError(f"there is no {target.kind.lower()} {target.name} in namespace {namespace}{hint}")
