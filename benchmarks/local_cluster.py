"""`python -m benchmarks.local_cluster`: what `kuberth up` needs for many pods, as its user sees it.

In: a cluster in a process of its own, kept in memory and kept on disk. Out: a table of seconds, CPU of that
process for each pod and the most memory it took, for two loads sent over HTTPS: a Deployment until its last
replica is ready, and a flood of pods created one by one until the last has a node.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import yaml

CONNECTIONS: Final = 4
LONGEST_SECONDS: Final = 600.0
_POD_SPEC: Final = {
    "containers": [{"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}],
}


class _Metadata(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Metadata


class _Change(msgspec.Struct):
    object: _Named


class Client:
    """What kubectl would send, over one connection that is kept."""

    def __init__(self, kubeconfig: Path) -> None:
        tree = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = tree["clusters"][0]["cluster"], tree["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(base64.b64decode(user["client-certificate-data"]))
            pair.write(base64.b64decode(user["client-key-data"]))
            pair.flush()
            context.load_cert_chain(pair.name)
        address = cluster["server"].removeprefix("https://")
        self._connection = http.client.HTTPSConnection(address, context=context, timeout=LONGEST_SECONDS)

    def create(self, path: str, body: bytes) -> None:
        self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 201:
            raise SystemExit(f"POST {path}: {answer.status} {text.decode()[:300]}")

    def watch(self, path: str) -> Iterator[bytes]:
        self._connection.request("GET", path)
        answer = self._connection.getresponse()
        while line := answer.readline():
            yield line


@dataclass(frozen=True)
class Process:
    """`kuberth up`, and what the kernel says about it."""

    pid: int
    kubeconfig: Path

    def client(self) -> Client:
        return Client(self.kubeconfig)

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak_mib(self) -> float:
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextmanager
def cluster(command: str, *, nodes: int, memory: bool, room: dict[str, str]) -> Iterator[Process]:
    folder = Path(tempfile.mkdtemp())
    shapes, kubeconfig, log = folder / "shapes.json", folder / "kubeconfig", folder / "log"
    shapes.write_text(json.dumps([{"count": nodes, "capacity": room}]), encoding="utf-8")
    where = ["--memory"] if memory else ["--data", str(folder / "data")]
    arguments = [*shlex.split(command), "up", "--shapes", str(shapes), "--port", "0", *where]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*arguments, "--kubeconfig-out", str(kubeconfig)], stdout=out, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + LONGEST_SECONDS
        while "Ready." not in (text := log.read_text(encoding="utf-8")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the cluster did not start:\n{text}")
            time.sleep(0.05)
        _rest(found := Process(process.pid, kubeconfig))
        yield found
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def _rest(process: Process) -> None:
    """What starting left to do is not part of the load."""
    for _ in range(100):
        before = process.cpu_seconds()
        time.sleep(0.3)
        if process.cpu_seconds() - before < 0.1:
            return


@dataclass(frozen=True)
class Result:
    seconds: float
    cpu_seconds: float
    peak_mib: float
    note: str = ""


def deployment(process: Process, pods: int) -> Result:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": _POD_SPEC}
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    tree = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    path = "/apis/apps/v1/namespaces/default/deployments"
    watching = process.client().watch(f"{path}?watch=true&fieldSelector=metadata.name%3Dweb")
    client = process.client()
    began, cpu = time.perf_counter(), process.cpu_seconds()
    client.create(f"{path}?fieldManager=kubectl-create", msgspec.json.encode(tree))
    for line in watching:
        if json.loads(line)["object"].get("status", {}).get("readyReplicas") == pods:
            break
    seconds = time.perf_counter() - began
    return Result(seconds, process.cpu_seconds() - cpu, process.peak_mib())


def flood(process: Process, pods: int) -> Result:
    path = "/api/v1/namespaces/default/pods"
    bodies = iter([msgspec.json.encode(_pod(f"web-{each}")) for each in range(pods)])
    finished: list[float] = []

    def send() -> None:
        client = process.client()
        # Threads share the iterator of a list: taking the next is one step.
        for body in bodies:
            client.create(f"{path}?fieldManager=kubectl-create", body)
        finished.append(time.perf_counter())

    senders = [threading.Thread(target=send, name=f"connection {each}") for each in range(CONNECTIONS)]
    decode = msgspec.json.Decoder(_Change).decode
    bound: set[str] = set()
    began, cpu = time.perf_counter(), process.cpu_seconds()
    for sender in senders:
        sender.start()
    # A watch that falls behind is ended by the server, and begins again with what is there.
    while len(bound) < pods:
        for line in process.client().watch(f"{path}?watch=true&fieldSelector=spec.nodeName%21%3D"):
            bound.add(decode(line).object.metadata.name)
            if len(bound) == pods:
                break
    ended = time.perf_counter()
    for sender in senders:
        sender.join()
    note = f"the last bound {ended - max(finished):.1f} s after the last creation"
    return Result(ended - began, process.cpu_seconds() - cpu, process.peak_mib(), note)


def _pod(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _POD_SPEC}


LOADS: Final[dict[str, tuple[Callable[[Process, int], Result], int, int]]] = {
    "deployment": (deployment, 1000, 5000),
    "flood": (flood, 240, 20_000),
}
"""Each with its nodes and its pods."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loads", nargs="*", default=list(LOADS), metavar="|".join(LOADS))
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--keep", choices=("memory", "disk"), help="only there; both otherwise")
    parser.add_argument("--command", default=f"{sys.executable} -m kuberth", help="what to start")
    options = parser.parse_args()
    print(f"{'':24} {'seconds':>8} {'CPU s':>8} {'CPU ms a pod':>13} {'peak MiB':>9}")
    for name in options.loads:
        load, nodes, pods = LOADS[name]
        nodes, pods = options.nodes or nodes, options.pods or pods
        # Twice the room that the pods need, however few the nodes are.
        room = {"cpu": str(pods // (5 * nodes) + 1), "memory": "64Gi", "pods": str(2 * pods // nodes + 10)}
        for place in (options.keep,) if options.keep else ("memory", "disk"):
            with cluster(options.command, nodes=nodes, memory=place == "memory", room=room) as process:
                found = load(process, pods)
            each = 1000 * found.cpu_seconds / pods
            figures = f"{found.seconds:8.1f} {found.cpu_seconds:8.1f} {each:13.2f} {found.peak_mib:9.0f}"
            print(f"{name + ', ' + place:24} {figures}  {found.note}", flush=True)


if __name__ == "__main__":
    main()
