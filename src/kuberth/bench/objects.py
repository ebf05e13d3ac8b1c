"""The objects of a workload, as trees: nodes, pods, volumes and their claims, priority classes.

In: an operation, its templates, and the number of an object. Out: objects to create. The default templates
are scheduler_perf's, so that figures can be compared: a node of 4 CPU and 32 GiB, and a pod that requests a
tenth of a CPU and 500 MiB.
"""

from __future__ import annotations

import copy
import random
import uuid
from pathlib import Path
from typing import Any, Final

from kuberth.api.well_known import HOSTNAME
from kuberth.bench.cases import SHIPPED, TestCase
from kuberth.bench.operations import CreateNodes, CreatePods
from kuberth.bench.templating import Template
from kuberth.errors import ConfigError
from kuberth.text.names import generate_name

Tree = dict[str, Any]

_MIGRATED: Final = "storage.alpha.kubernetes.io/migrated-plugins"
OWN_CLASSES: Final = "bench-"
"""The beginning of the names of priority classes that `admitted` pods get."""
DEFAULT_NODE: Final = SHIPPED / "templates" / "default-node.yaml"
DEFAULT_POD: Final = SHIPPED / "templates" / "default-pod.yaml"


class NodeMaker:
    """Nodes of one operation, with random names, so that their order has no meaning."""

    def __init__(self, operation: CreateNodes, case: TestCase, number: int, rng: random.Random) -> None:
        self._operation = operation
        self._prefix = f"node-{number}-"
        path = operation.node_template_path
        self._template = _read(case.path(path) if path else DEFAULT_NODE, "Node")
        self._rng = rng
        self._names: set[str] = set()

    def make(self, index: int) -> tuple[Tree, Tree | None]:
        """The node, and its CSINode if the operation limits volumes."""
        operation = self._operation
        node: Tree = copy.deepcopy(self._template.tree(index, operation.count))
        node |= {"apiVersion": "v1", "kind": "Node"}
        metadata = node.setdefault("metadata", {})
        name = metadata.get("name") or self._draw(metadata.get("generateName") or self._prefix)
        labels = metadata["labels"] = {**(metadata.get("labels") or {}), HOSTNAME: name}
        metadata["name"] = name
        # Only the first given strategy applies, as in scheduler_perf.
        if operation.node_allocatable_strategy is not None:
            status = node.setdefault("status", {})
            # By default, the whole capacity is allocatable, as an API server sets it.
            status["allocatable"] = {
                **(status.get("allocatable") or status.get("capacity") or {}),
                **operation.node_allocatable_strategy.node_allocatable,
            }
        elif operation.label_node_prepare_strategy is not None:
            values = operation.label_node_prepare_strategy.label_values
            labels[operation.label_node_prepare_strategy.label_key] = values[index % len(values)]
        elif operation.unique_node_label_strategy is not None:
            labels[operation.unique_node_label_strategy.label_key] = str(
                uuid.UUID(int=self._rng.getrandbits(128))
            )
        return node, self._csi_node(name)

    def _draw(self, prefix: str) -> str:
        while True:
            name = generate_name(prefix, self._rng)
            if name not in self._names:
                self._names.add(name)
                return name

    def _csi_node(self, name: str) -> Tree | None:
        strategy = self._operation.node_allocatable_strategy
        if strategy is None or not (strategy.csi_node_allocatable or strategy.migrated_plugins):
            return None
        drivers = [
            {
                "name": driver,
                "nodeID": name,
                "topologyKeys": None,
                "allocatable": {} if limits.count is None else {"count": limits.count},
            }
            for driver, limits in strategy.csi_node_allocatable.items()
        ]
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSINode",
            "metadata": {"name": name, "annotations": {_MIGRATED: ",".join(strategy.migrated_plugins)}},
            "spec": {"drivers": drivers},
        }


class PodMaker:
    """Pods of one operation, each with its own volume if the operation has templates for volumes."""

    def __init__(self, operation: CreatePods, case: TestCase, namespace: str, *, admits: bool) -> None:
        """`admits`: pods are `admitted`."""
        self._count = operation.count
        self._namespace = namespace
        self._admits = admits
        path = operation.pod_template_path
        self._template = _read(case.path(path) if path else case.default_pod_template or DEFAULT_POD, "Pod")
        self._volume: Template | None = None
        if path := operation.persistent_volume_template_path:
            self._volume = _read(case.path(path), "PersistentVolume")
            claim_path = case.path(operation.persistent_volume_claim_template_path)
            self._claim = _read(claim_path, "PersistentVolumeClaim")
        self._same: Tree | None = None

    @property
    def has_volumes(self) -> bool:
        return self._volume is not None

    def pod(self, index: int) -> Tree:
        if self._same is not None:
            return self._same
        tree: Tree = {**self._template.tree(index, self._count), "apiVersion": "v1", "kind": "Pod"}
        tree = admitted(tree) if self._admits else tree
        if self.has_volumes:
            claim = {"claimName": f"pvc-{index}"}
            spec = {**tree.get("spec", {}), "volumes": [{"name": "vol", "persistentVolumeClaim": claim}]}
            return {**tree, "spec": spec}
        if self._template.static:
            self._same = tree
        return tree

    def volume(self, index: int) -> tuple[Tree, Tree]:
        """A claim, and the volume to which it is bound; both get their status after their creation."""
        assert self._volume is not None
        claim_name = f"pvc-{index}"
        name = f"{self._namespace}-vol-{index}"
        volume = copy.deepcopy(self._volume.tree(index, self._count))
        spec = volume["spec"]
        if "csi" in spec:
            spec["csi"]["volumeHandle"] = name
        elif "awsElasticBlockStore" in spec:
            spec["awsElasticBlockStore"]["volumeID"] = f"vol-{index}"
        spec["claimRef"] = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": self._namespace,
            "name": claim_name,
        }
        volume |= {"apiVersion": "v1", "kind": "PersistentVolume", "status": {"phase": "Bound"}}
        volume["metadata"] = {**volume.get("metadata", {}), "name": name}
        claim = copy.deepcopy(self._claim.tree(index, self._count))
        claim |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "status": {"phase": "Bound"}}
        claim["metadata"] = {**claim.get("metadata", {}), "name": claim_name, "namespace": self._namespace}
        claim["spec"]["volumeName"] = name
        return claim, volume


def admitted(pod: Tree) -> Tree:
    """The pod for servers that check pods at admission, as every real cluster does.

    scheduler_perf disables these checks: its pods state a priority, and have no service account. On other
    servers, a priority needs a class, and pods have the default service account from their creation on, so
    that an update does not have to add it.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    added = {"serviceAccountName": "default", "serviceAccount": "default"}
    priority = spec.get("priority")
    if isinstance(priority, int) and priority:
        added["priorityClassName"] = f"{OWN_CLASSES}{'minus-' if priority < 0 else ''}{abs(priority)}"
    return {**pod, "spec": {**added, **spec}}


def _read(path: Path, kind: str) -> Template:
    template = Template.read(path)
    found = template.tree(0, 1).get("kind", kind)
    if found != kind:
        raise ConfigError(f"template {path}: expected a {kind}, found a {found}")
    return template
