"""An independent client of the Kubernetes API for what the tests do and assert: the standard library only.

One keep-alive connection a thread. It shares no code with Kuberth's own client, so that neither can hide
the other's mistakes.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"

PLURALS = {
    "Binding": "bindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "CSIStorageCapacity": "csistoragecapacities",
    "DeviceClass": "deviceclasses",
    "PriorityClass": "priorityclasses",
    "StorageClass": "storageclasses",
}
CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "DeviceClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "ResourceSlice",
    "StorageClass",
}


class RefusedError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


def path_of(api_version: str, kind: str, *, namespace: str = "", name: str = "") -> str:
    """The path of an object, or of its collection if it has no name."""
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    scope = "" if kind in CLUSTER_SCOPED or not namespace else f"/namespaces/{namespace}"
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}{scope}/{plural}" + (f"/{name}" if name else "")


class ApiClient:
    """The API as one user."""

    def __init__(self, server: str, *, token: str, ca_file: Path) -> None:
        self._address = urlsplit(server)
        self._token = token
        self._tls = ssl.create_default_context(cafile=str(ca_file))
        self._local = threading.local()

    def connect(self, *, timeout: float = 30.0) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            self._address.hostname or "", self._address.port, context=self._tls, timeout=timeout
        )
        connection.connect()
        # The answer to a small request must not wait for a delayed acknowledgement.
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        *,
        content_type: str = "application/json",
        query: Mapping[str, object] | None = None,
    ) -> Object:
        """The decoded answer; raises RefusedError for an error and OSError for no answer."""
        target = f"{path}?{urlencode(query)}" if query else path
        # As kubectl writes it: kube-apiserver keeps opaque parameters of claims byte by byte, and finds them
        # changed by any later write that is spelled otherwise.
        data = None if body is None else json.dumps(body, separators=(",", ":"), sort_keys=True).encode()
        status, raw = self._exchange(method, target, data, content_type)
        decoded: Object = json.loads(raw) if raw[:1] == b"{" else {"text": raw.decode(errors="replace")}
        if status >= 400:
            raise RefusedError(status, str(decoded.get("message", decoded.get("text"))))
        return decoded

    def create_raw(self, path: str, body: bytes) -> None:
        """Create an object from JSON text as it is."""
        status, raw = self._exchange("POST", path, body, "application/json")
        if status >= 400:
            raise RefusedError(status, raw.decode(errors="replace"))

    def _exchange(self, method: str, target: str, data: bytes | None, content_type: str) -> tuple[int, bytes]:
        headers = self._headers({"Content-Type": content_type} if data is not None else {})
        for last_try in (False, True):
            kept = getattr(self._local, "connection", None)
            connection = kept or self.connect()
            self._local.connection = connection
            try:
                connection.request(method, target, body=data, headers=headers)
                response = connection.getresponse()
                return response.status, response.read()
            except (http.client.HTTPException, OSError):
                self.close()
                # Only a kept connection may have died of age; a fresh one fails for a real reason.
                if last_try or kept is None:
                    raise
        raise AssertionError("unreachable")

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **more}

    # Objects

    def get(self, api_version: str, kind: str, name: str, *, namespace: str = "") -> Object:
        return self.request("GET", path_of(api_version, kind, namespace=namespace, name=name))

    def list(self, api_version: str, kind: str, *, namespace: str = "", **query: object) -> list[Object]:
        answer = self.request("GET", path_of(api_version, kind, namespace=namespace), query=query)
        items: list[Object] = answer["items"]
        return items

    def create(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        path = path_of(obj["apiVersion"], obj["kind"], namespace=metadata.get("namespace", ""))
        return self.request("POST", path, obj)

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        change: Object,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """A JSON merge patch."""
        path = path_of(api_version, kind, namespace=namespace, name=name)
        path = f"{path}/{subresource}" if subresource else path
        return self.request("PATCH", path, change, content_type=MERGE_PATCH)

    def delete(
        self, api_version: str, kind: str, name: str, *, namespace: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete the object; that it is gone already is fine."""
        options: Object | None = None
        if grace_seconds is not None:
            options = {"gracePeriodSeconds": grace_seconds}
        try:
            self.request("DELETE", path_of(api_version, kind, namespace=namespace, name=name), options)
        except RefusedError as failure:
            if failure.status != 404:
                raise

    # Watching

    def watch(
        self, api_version: str, kind: str, *, namespace: str, resource_version: str, idle_seconds: float
    ) -> Iterator[Object]:
        """Events as they come; ends when the server ends the stream or is silent for `idle_seconds`."""
        query = {"watch": "1", "resourceVersion": resource_version, "allowWatchBookmarks": "true"}
        connection = self.connect(timeout=idle_seconds)
        try:
            path = f"{path_of(api_version, kind, namespace=namespace)}?{urlencode(query)}"
            connection.request("GET", path, headers=self._headers({}))
            response = connection.getresponse()
            if response.status != 200:
                raise RefusedError(response.status, response.read().decode(errors="replace"))
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()
