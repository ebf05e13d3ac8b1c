"""Schedulers under test as programs: `kuberth run`, and the Go kube-scheduler as its peer.

Both take the same flags and the same configuration, so the same test can run either.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.assets import Assets
from tests.e2e.control_plane import ADMIN, ControlPlane, free_port, token_of
from tests.e2e.processes import Process
from tests.e2e.waiting import wait_for

KUBERTH = "kuberth"
KUBE_SCHEDULER = "kube-scheduler"
PROGRAM_VARIABLE = "KUBERTH_E2E_PROGRAM"


def program_under_test() -> str:
    """Kuberth, unless someone wants to see what kube-scheduler does in the same tests."""
    program = os.environ.get(PROGRAM_VARIABLE, KUBERTH)
    assert program in (KUBERTH, KUBE_SCHEDULER), f"{PROGRAM_VARIABLE}={program}: no such program"
    return program


def command_of(program: str, assets: Assets) -> list[str]:
    if program == KUBE_SCHEDULER:
        assert assets.kube_scheduler is not None
        return [str(assets.kube_scheduler)]
    script = Path(sysconfig.get_path("scripts")) / "kuberth"
    assert script.exists(), f"no {script}: run `make setup` ({sys.executable})"
    return [str(script), "run"]


class RunningScheduler:
    """A scheduler as a process, and what it says on its secure port."""

    def __init__(
        self,
        program: str,
        control_plane: ControlPlane,
        *,
        user: str,
        config: Mapping[str, Any],
        folder: Path,
        name: str,
        kubeconfig: Path | None = None,
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.program = program
        self.user = user
        self.port = free_port()
        kubeconfig = kubeconfig or control_plane.kubeconfig(user)
        connection = {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000}
        self.config_file = folder / f"{name}.config.json"
        self.config_file.write_text(
            json.dumps({"clientConnection": connection, **config}, indent=2), encoding="utf-8"
        )
        # Its own requests may go through a faulty proxy; access reviews for its metrics need not.
        review = control_plane.kubeconfig(user)
        command = [
            *command_of(program, control_plane.assets),
            f"--config={self.config_file}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            f"--authentication-kubeconfig={review}",
            f"--authorization-kubeconfig={review}",
            "--v=2",
            *flags,
        ]
        self.process = Process(name, command, log=folder / f"{name}.log", env=env)

    # What it serves

    def serves(self, path: str, *, token: str = "", accept: str = "") -> tuple[int, str]:
        """Status and body of a GET on the secure port."""
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE  # its certificate is made by itself at every start
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=tls, timeout=10)
        try:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            if accept:
                headers["Accept"] = accept
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def is_ready(self) -> bool:
        assert self.process.alive, f"{self.process.name} ended with {self.process.returncode}"
        try:
            return self.serves("/readyz")[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_ready(self, *, seconds: float = 30.0) -> None:
        wait_for(
            f"{self.process.name} to be ready", self.is_ready, seconds=seconds, explain=self.process.tail
        )

    def metric(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name with these labels; 0 if there are none."""
        status, text = self.serves("/metrics", token=token_of(ADMIN))
        assert status == 200, f"/metrics answered {status}: {text[:300]}"
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def attempts(self) -> float:
        """How many scheduling attempts ended so far, however they ended."""
        return self.metric("scheduler_schedule_attempts_total")

    # What happens to it

    def leave(self, *, seconds: float = 15.0) -> None:
        """Ask it to end (SIGTERM), and see that it calls that a success."""
        code = self.process.terminate(seconds=seconds)
        # kube-scheduler calls the end of a run without leader election a failure.
        allowed = (0, 1) if self.program == KUBE_SCHEDULER else (0,)
        assert code in allowed, f"{self.process.name} ended with {code}; {self.process.tail()}"

    def kill(self) -> None:
        self.process.kill()

    def pause(self) -> None:
        """Stop it where it is, as a starved or suspended machine would."""
        self.process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.signal(signal.SIGCONT)

    def usage(self) -> tuple[float, float]:
        """CPU seconds used so far and the peak of its memory in MiB."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        cpu_seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
        return cpu_seconds, int(peak.split()[1]) / 1024
