"""What a test does with the cluster: objects in, placements out, everything removed afterwards."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from tests.e2e.api_client import ApiClient, RefusedError
from tests.e2e.audit import BindRequest
from tests.e2e.control_plane import ControlPlane
from tests.e2e.objects import Object
from tests.e2e.waiting import wait_for

_numbers = itertools.count(1)

_LEFT_OVERS = (
    ("v1", "Pod"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceClaim"),
    ("resource.k8s.io/v1", "ResourceSlice"),
    ("resource.k8s.io/v1", "DeviceClass"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "PersistentVolume"),
    ("storage.k8s.io/v1", "StorageClass"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "Node"),
)


class Cluster:
    """One test's view: a namespace of its own in a cluster that is empty but for it."""

    def __init__(self, control_plane: ControlPlane) -> None:
        self.control_plane = control_plane
        self.api: ApiClient = control_plane.client()
        self.namespace = f"e2e-{next(_numbers)}"
        self.audit_start = control_plane.audit.mark()
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    # Objects

    def create(self, *objects: Object) -> None:
        for obj in objects:
            namespace = obj["metadata"].get("namespace", self.namespace)
            self._create({**obj, "metadata": {**obj["metadata"], "namespace": namespace}})

    def _create(self, obj: Object) -> None:
        def accepted() -> bool:
            try:
                self.api.create(obj)
            except RefusedError as failure:
                # Admission looks priority classes up in a cache that may be a moment behind.
                if failure.status == 403 and "PriorityClass" in str(failure):
                    return False
                raise
            return True

        wait_for(f"{obj['kind']} {obj['metadata']['name']} to be accepted", accepted, seconds=10)

    def pod(self, name: str) -> Object:
        return self.api.get("v1", "Pod", name, namespace=self.namespace)

    def pods(self) -> dict[str, Object]:
        pods = self.api.list("v1", "Pod", namespace=self.namespace)
        return {pod["metadata"]["name"]: pod for pod in pods}

    def placements(self) -> dict[str, str]:
        """Pod name → node, for the pods that have one."""
        return {
            name: pod["spec"]["nodeName"] for name, pod in self.pods().items() if pod["spec"].get("nodeName")
        }

    def patch_pod(self, name: str, change: Object, *, subresource: str = "") -> None:
        self.api.patch("v1", "Pod", name, change, namespace=self.namespace, subresource=subresource)

    def delete_pod(self, name: str) -> None:
        self.api.delete("v1", "Pod", name, namespace=self.namespace, grace_seconds=0)

    def patch_node(self, name: str, change: Object, *, subresource: str = "") -> None:
        self.api.patch("v1", "Node", name, change, subresource=subresource)

    def label_node(self, name: str, **labels: str) -> None:
        self.patch_node(name, {"metadata": {"labels": labels}})

    def condition(self, name: str, kind: str = "PodScheduled") -> Object:
        """The pod's condition of this type, or an empty tree."""
        conditions: list[Object] = self.pod(name).get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == kind), {})

    def events(self, reason: str, *, name: str = "") -> list[Object]:
        events = self.api.list("events.k8s.io/v1", "Event", namespace=self.namespace)
        return [
            event
            for event in events
            if event.get("reason") == reason and (not name or event["regarding"]["name"] == name)
        ]

    # Waiting

    def wait_bound(self, *names: str, seconds: float = 30.0) -> dict[str, str]:
        """Placements, once all these pods (or all there are) have one."""

        def bound() -> dict[str, str] | None:
            placements = self.placements()
            wanted: Iterable[str] = names or self.pods()
            return placements if all(name in placements for name in wanted) else None

        return wait_for(
            f"{', '.join(names) or 'all pods'} to be bound", bound, seconds=seconds, explain=self._pending
        )

    def wait_unschedulable(self, name: str, *, seconds: float = 30.0) -> str:
        """The reason that the pod's condition gives."""

        def message() -> str | None:
            condition = self.condition(name)
            return condition["message"] if condition.get("reason") == "Unschedulable" else None

        return wait_for(f"{name} to be unschedulable", message, seconds=seconds, explain=self._pending)

    def seconds_until(self, what: str, probe: Callable[[], Any], *, seconds: float = 30.0) -> float:
        started = time.monotonic()
        wait_for(what, probe, seconds=seconds, explain=self._pending)
        return time.monotonic() - started

    def _pending(self) -> str:
        lines = []
        for name, pod in self.pods().items():
            if not pod["spec"].get("nodeName"):
                conditions = pod.get("status", {}).get("conditions", [])
                why = next(
                    (c.get("message", c["reason"]) for c in conditions if c["type"] == "PodScheduled"), "?"
                )
                lines.append(f"{name}: {why}")
        return f"pending: {'; '.join(lines) or 'none'}"

    # What happened

    def binds(self) -> list[BindRequest]:
        """Every bind request of this test that reached the API server."""
        binds = self.control_plane.audit.binds(self.audit_start)
        return [bind for bind in binds if bind.namespace == self.namespace]

    def assert_bound_once(self) -> None:
        """Every pod has a node, and exactly one bind of it succeeded.

        The API server may carry out a bind whose client is killed meanwhile; it then records a timeout (504).
        """
        placements, pods = self.placements(), self.pods()
        assert placements.keys() == pods.keys(), self._pending()
        binds = self.binds()
        succeeded = Counter(bind.pod for bind in binds if bind.status == 201)
        cut_off = {bind.pod for bind in binds if bind.status == 504}
        once = Counter(pod for pod in pods if pod in succeeded or pod not in cut_off)
        assert succeeded == once, f"not once: {succeeded - once}; never: {once - succeeded}"

    def clean_up(self) -> None:
        """Remove what the test made; there is no controller manager that would."""
        for api_version, kind in _LEFT_OVERS:
            for obj in self._served(api_version, kind):
                self._remove(api_version, kind, obj["metadata"])
        for namespace in ("kuberth-system", "kube-system"):
            for lease in self.api.list("coordination.k8s.io/v1", "Lease", namespace=namespace):
                if lease["metadata"]["name"] in ("kuberth", "kube-scheduler"):
                    self._remove("coordination.k8s.io/v1", "Lease", lease["metadata"])
        self.api.close()

    def _served(self, api_version: str, kind: str) -> list[Object]:
        """All objects of a kind; none where the server emulates a version that did not have it."""
        try:
            return self.api.list(api_version, kind)
        except RefusedError as error:
            if error.status == 404:
                return []
            raise

    def _remove(self, api_version: str, kind: str, metadata: Object) -> None:
        if kind == "PriorityClass" and metadata["name"].startswith("system-"):
            return
        name, namespace = metadata["name"], metadata.get("namespace", "")
        if metadata.get("finalizers"):
            change = {"metadata": {"finalizers": None}}
            self.api.patch(api_version, kind, name, change, namespace=namespace)
        self.api.delete(api_version, kind, name, namespace=namespace, grace_seconds=0)
