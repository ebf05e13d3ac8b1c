"""Every pod's placements as a watch saw them, from the first to the last."""

from __future__ import annotations

import http.client
import threading
import time

from tests.e2e.api_client import ApiClient, RefusedError


class PodHistory:
    """Watches a namespace's pods in a thread of its own; `close()` ends it."""

    def __init__(self, client: ApiClient, namespace: str) -> None:
        self.placements: dict[str, list[str]] = {}
        """Pod name → the nodes it was seen on, each change once. More than one would be a second bind."""
        self.bound_at: dict[str, float] = {}
        self._client = client
        self._namespace = namespace
        self._closed = threading.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"history of {namespace}", daemon=True)
        self._thread.start()
        assert self._started.wait(30), "the watch on pods did not start"

    def close(self) -> None:
        self._closed.set()
        self._thread.join(15)

    def _run(self) -> None:
        version = ""
        while not self._closed.is_set():
            try:
                version = self._list() if not version else self._watch(version)
            except RefusedError as failure:
                version = "" if failure.status == 410 else version
                time.sleep(0.1)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)

    def _list(self) -> str:
        answer = self._client.request("GET", f"/api/v1/namespaces/{self._namespace}/pods")
        self._client.close()
        for pod in answer["items"]:
            self._note(pod)
        self._started.set()
        return str(answer["metadata"]["resourceVersion"])

    def _watch(self, version: str) -> str:
        try:
            for event in self._client.watch(
                "v1", "Pod", namespace=self._namespace, resource_version=version, idle_seconds=2.0
            ):
                if event["type"] == "ERROR":
                    return ""
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self._note(event["object"])
                if self._closed.is_set():
                    break
        except TimeoutError:
            pass
        return version

    def _note(self, pod: dict[str, object]) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        assert isinstance(metadata, dict)
        assert isinstance(spec, dict)
        placements = self.placements.setdefault(metadata["name"], [])
        placed_on = spec.get("nodeName")
        if placed_on and placements[-1:] != [placed_on]:
            placements.append(placed_on)
            self.bound_at.setdefault(metadata["name"], time.monotonic())
