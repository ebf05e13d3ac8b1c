"""`kuberth up` as a process with its page, and a small client for what kubectl would do meanwhile."""

from __future__ import annotations

import json
import re
import signal
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for
from tests.manifests import deployment_manifest, pod_manifest

Object = dict[str, Any]

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
READY_SECONDS = 120.0
MERGE_PATCH = "application/merge-patch+json"
_LINK = re.compile(r"http://\S+/ui/(?=\n)")


@dataclass(frozen=True, slots=True)
class Api:
    """The Kubernetes API at the page's own origin."""

    origin: str
    token: str

    def request(self, method: str, path: str, body: object = None, *, kind: str = "application/json") -> Any:
        request = urllib.request.Request(
            self.origin + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read())

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any | None:
        """None if it is not there."""
        try:
            return self.get(path)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise

    def create(self, path: str, body: Object) -> Any:
        return self.request("POST", path, body)

    def merge(self, path: str, patch: Object) -> Any:
        return self.request("PATCH", path, patch, kind=MERGE_PATCH)

    def delete(self, path: str) -> Any:
        return self.request("DELETE", path)

    def nodes(self) -> set[str]:
        return {node["metadata"]["name"] for node in self.get(NODES)["items"]}

    def clear(self, nodes: set[str]) -> None:
        """No pod, no controller that would create one, and no other node is left in the namespace default."""
        for name in self.nodes() - nodes:
            self.delete(f"{NODES}/{name}")
        self.delete(f"{DEPLOYMENTS}?propagationPolicy=Background")
        self.delete(f"{PODS}?gracePeriodSeconds=0")
        wait_for("no pods", lambda: not self.get(PODS)["items"])

    def create_pod(self, name: str, **fields: Any) -> None:
        self.create(PODS, pod(name, **fields))

    def pod(self, name: str) -> Any | None:
        return self.find(f"{PODS}/{name}")


class Cluster:
    """A running cluster; it can be ended and started again where it was."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder = folder
        self._flags = flags
        self._starts = 0
        self.process, self.link = self._start(page_port=0)

    @property
    def origin(self) -> str:
        parts = urlsplit(self.link)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def token(self) -> str:
        return self.link.partition("#token=")[2]

    @property
    def api(self) -> Api:
        return Api(self.origin, self.token)

    def _start(self, *, page_port: int) -> tuple[Process, str]:
        self._starts += 1
        command = [sys.executable, "-m", "kuberth", "up", "--port", "0", "--page-port", str(page_port)]
        command += ["--data", str(self._folder / "data"), *self._flags]
        process = Process("kuberth up", command, log=self._folder / f"up-{self._starts}.log")

        def link() -> str | None:
            assert process.alive, process.tail()
            found = _LINK.search(process.output())
            if found is None:
                return None
            token = (self._folder / "data" / "pki" / "token").read_text(encoding="ascii").strip()
            return f"{found[0]}#token={token}"

        return process, wait_for("the page's link", link, seconds=READY_SECONDS, explain=process.tail)

    def end(self) -> None:
        if self.process.alive:
            self.process.signal(signal.SIGINT)
            self.process.wait(30)

    def start_again(self) -> None:
        """At the same port, with the same credentials."""
        before = self.link
        self.process, self.link = self._start(page_port=urlsplit(self.origin).port or 0)
        assert self.link == before


def pod(
    name: str, *, cpu: str = "100m", spec: Object | None = None, metadata: Object | None = None
) -> Object:
    return pod_manifest(name, requests={"cpu": cpu}, metadata=metadata, **(spec or {}))


def deployment(name: str, *, replicas: int, cpu: str = "100m") -> Object:
    return deployment_manifest(name, replicas=replicas, pod=pod("unused", cpu=cpu))
