"""What users get wrong at the start: one clear line, a hint, and an exit code that is not 0."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.certificates import AuthorityFolder
from tests.e2e.control_plane import SECOND_SCHEDULER, ControlPlane, free_port, token_of
from tests.e2e.kubeconfigs import write_kubeconfig
from tests.e2e.objects import configuration
from tests.e2e.processes import Process
from tests.e2e.schedulers import command_of, program_under_test

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("kuberth_only")]

RunToEnd = Callable[..., str]


@pytest.fixture
def run_to_end(control_plane: ControlPlane, tmp_path: Path) -> RunToEnd:
    """Run the program until it gives up; returns its complaint, which must be one line."""

    def run(*flags: str, config: dict[str, Any] | None = None) -> str:
        file = tmp_path / "config.json"
        file.write_text(json.dumps(config or configuration()), encoding="utf-8")
        command = [*command_of(program_under_test(), control_plane.assets), f"--config={file}", *flags]
        if not any(flag.startswith("--secure-port") for flag in flags):
            command.append(f"--secure-port={free_port()}")
        log = tmp_path / "run.log"
        log.unlink(missing_ok=True)
        process = Process("kuberth run", command, log=log)
        try:
            code = process.wait(40)
        finally:
            process.kill()
        output = process.output()
        assert code not in (0, None), output
        assert code > 0, f"killed by signal {-code}"
        assert "Traceback" not in output
        errors = [line for line in output.splitlines() if line.startswith("Error: ")]
        assert len(errors) == 1, output
        return errors[0]

    return run


def kubeconfig_of(control_plane: ControlPlane, tmp_path: Path, **changes: Any) -> str:
    settings = {
        "server": control_plane.server,
        "ca_file": control_plane.authority.file,
        "token": token_of(SECOND_SCHEDULER),
        **changes,
    }
    return f"--kubeconfig={write_kubeconfig(tmp_path / 'bad.kubeconfig', **settings)}"


def test_wrong_authority(control_plane: ControlPlane, run_to_end: RunToEnd, tmp_path: Path) -> None:
    other = AuthorityFolder(tmp_path / "other")
    error = run_to_end(kubeconfig_of(control_plane, tmp_path, ca_file=other.file))
    assert "certificate" in error
    assert re.search(r"certificate-authority|CA", error)


def test_expired_token(control_plane: ControlPlane, run_to_end: RunToEnd, tmp_path: Path) -> None:
    token = control_plane.expired_token("kuberth-system", "kuberth")
    error = run_to_end(kubeconfig_of(control_plane, tmp_path, token=token))
    assert re.search(r"401|[Uu]nauthori[sz]ed", error)
    assert re.search(r"token|credential", error)
    assert token not in (tmp_path / "run.log").read_text(encoding="utf-8")


BROKEN_KUBECONFIGS = {
    "not yaml": ("clusters: [\n", r"YAML|yaml|parse|read"),
    "no such context": (
        '{"current-context": "nowhere", "clusters": [{"name": "c", "cluster": {"server": "https://a"}}]}',
        "nowhere",
    ),
    "empty": ("", r"empty|cluster|context"),
    "not a mapping": ("- a list\n", r"mapping|object|list|kubeconfig"),
}


@pytest.mark.parametrize("text, expected", BROKEN_KUBECONFIGS.values(), ids=BROKEN_KUBECONFIGS.keys())
def test_broken_kubeconfig(run_to_end: RunToEnd, tmp_path: Path, text: str, expected: str) -> None:
    file = tmp_path / "broken.kubeconfig"
    file.write_text(text, encoding="utf-8")
    error = run_to_end(f"--kubeconfig={file}")
    assert str(file) in error
    assert re.search(expected, error), error


def test_missing_kubeconfig(run_to_end: RunToEnd, tmp_path: Path) -> None:
    error = run_to_end(f"--kubeconfig={tmp_path / 'not-there'}")
    assert str(tmp_path / "not-there") in error


def test_port_in_use(control_plane: ControlPlane, run_to_end: RunToEnd, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        error = run_to_end(
            kubeconfig_of(control_plane, tmp_path), "--bind-address=127.0.0.1", f"--secure-port={port}"
        )
    assert str(port) in error
    assert "in use" in error
    assert "--secure-port" in error


def test_unknown_flag_and_unknown_plugin(
    control_plane: ControlPlane, run_to_end: RunToEnd, tmp_path: Path
) -> None:
    kubeconfig = kubeconfig_of(control_plane, tmp_path)
    assert "--leader-elect" in run_to_end(kubeconfig, "--leader-elct=false")
    profile = {"schedulerName": "kuberth", "plugins": {"filter": {"enabled": [{"name": "NodePort"}]}}}
    assert "NodePort" in run_to_end(kubeconfig, config=configuration(profile))
