"""The programs of a soak: `kuberth run` beside kube-apiserver and etcd, or `kuberth up` alone.

In: a folder. Out: a client of the API, the process that is measured and its metrics, and what can
happen to both.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Final

from tests.e2e.api_client import ApiClient
from tests.e2e.assets import Assets
from tests.e2e.control_plane import ADMIN, ControlPlane, free_port, token_of
from tests.e2e.objects import configuration, node
from tests.e2e.processes import Process
from tests.e2e.schedulers import KUBERTH, RunningScheduler
from tests.e2e.waiting import wait_for

NODES: Final = 40


class SoakCluster(ABC):
    """A cluster of which one process is measured."""

    others: tuple[str, ...] = ()
    """Other processes that can be killed."""
    scheduler_name: str

    client: ApiClient
    process: Process

    @abstractmethod
    def start(self) -> None:
        """Start the process that is measured."""

    @abstractmethod
    def metrics(self) -> str: ...

    def kill_other(self, name: str) -> None:
        raise AssertionError(f"there is no {name}")

    @abstractmethod
    def stop(self) -> None: ...


class RunCluster(SoakCluster):
    """`kuberth run` with leader election, kube-apiserver and etcd."""

    others = ("kube-apiserver", "etcd")
    scheduler_name = "kuberth"

    def __init__(self, folder: Path, assets: Assets) -> None:
        self._folder = folder
        self._plane = ControlPlane(folder, assets, audit=False)
        self._plane.start()
        self.client = self._plane.client()
        for number in range(NODES):
            self.client.create(node(f"node-{number}"))
        self._scheduler: RunningScheduler | None = None

    def start(self) -> None:
        election = {"leaderElect": True, "leaseDuration": "15s", "renewDeadline": "10s", "retryPeriod": "2s"}
        self._scheduler = RunningScheduler(
            KUBERTH,
            self._plane,
            user=ADMIN,
            config=configuration(leaderElection=election),
            folder=self._folder,
            name="scheduler",
        )
        self.process = self._scheduler.process

    def metrics(self) -> str:
        assert self._scheduler is not None
        return self._scheduler.serves("/metrics", token=token_of(ADMIN))[1]

    def kill_other(self, name: str) -> None:
        if name == "etcd":
            self._plane.kill_etcd()
            self._plane.start_etcd()
        else:
            self._plane.kill_api_server()
            self._plane.start_api_server()

    def stop(self) -> None:
        if self._scheduler is not None:
            self._scheduler.kill()
        self._plane.stop()


class UpCluster(SoakCluster):
    """`kuberth up` over its file."""

    scheduler_name = "default-scheduler"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._kubeconfig = folder / "kubeconfig"

    def start(self) -> None:
        command = [sys.executable, "-m", "kuberth", "up", "--nodes", str(NODES), "--port", str(self._port)]
        command += [
            "--data",
            str(self._folder / "data"),
            "--kubeconfig-out",
            str(self._kubeconfig),
            "--no-page",
        ]
        log = self._folder / "up.log"
        log.unlink(missing_ok=True)
        self.process = Process("kuberth up", command, log=log)
        wait_for("the cluster to be ready", self._is_ready, seconds=60, explain=self.process.tail)
        if not hasattr(self, "client"):
            self._token = (self._folder / "data" / "pki" / "token").read_text(encoding="utf-8").strip()
            self.client = ApiClient(
                f"https://127.0.0.1:{self._port}",
                token=self._token,
                ca_file=self._folder / "data" / "pki" / "ca.crt",
            )

    def _is_ready(self) -> bool:
        assert self.process.alive, self.process.tail()
        return "Ready." in self.process.output()

    def metrics(self) -> str:
        return str(self.client.request("GET", "/metrics")["text"])

    def stop(self) -> None:
        self.process.kill()
