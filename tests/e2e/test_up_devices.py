"""Devices on a laptop as the page about them shows it: `kuberth up --devices`, and real kubectl."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.e2e.test_up import StartUp, Up, start_up
from tests.e2e.waiting import wait_for

__all__ = ["start_up"]  # the fixture

pytestmark = pytest.mark.e2e

PAGE = Path("docs/dynamic-resources.md")


def write_files(folder: Path) -> None:
    for block in blocks(PAGE):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def counts(up: Up) -> tuple[int, int]:
    phases = [pod["status"].get("phase") for pod in up.items("pods")]
    return phases.count("Running"), phases.count("Pending")


def columns(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.strip().splitlines()]


def test_the_page_s_example(start_up: StartUp, tmp_path: Path) -> None:
    write_files(tmp_path)
    data = str(tmp_path / "data")
    flags = (
        "--shapes",
        str(tmp_path / "shapes.yaml"),
        "--devices",
        str(tmp_path / "devices.yaml"),
        "--data",
        data,
    )
    up = start_up(*flags)
    up.kubectl("apply", "--server-side", "-f", str(tmp_path / "train.yaml"))
    wait_for("twelve pods to run", lambda: counts(up) == (12, 3))

    slices = columns(up.kubectl("get", "resourceslices"))
    assert slices[0] == ["NAME", "NODE", "DRIVER", "POOL", "AGE"]
    assert [row[:4] for row in slices[2:]] == [
        [f"gpu-{n}-gpu.example.com-0", f"gpu-{n}", "gpu.example.com", f"gpu-{n}"] for n in (1, 2, 3)
    ]
    claims = columns(up.kubectl("get", "resourceclaims"))
    assert claims[0] == ["NAME", "STATE", "AGE"]
    assert sorted(row[1] for row in claims[1:]) == ["allocated,reserved"] * 12 + ["pending"] * 3
    assert [row[0] for row in columns(up.kubectl("get", "deviceclasses"))] == ["NAME", "gpu", "nic"]
    assert columns(up.kubectl("get", "resourceclaimtemplates"))[1][0] == "one-gpu"
    on_one = up.items("resourceslices", "--field-selector", "spec.nodeName=gpu-1")
    assert [each["spec"]["nodeName"] for each in on_one] == ["gpu-1"]

    pods = up.items("pods")
    waiting = [pod for pod in pods if pod["status"]["phase"] == "Pending"]
    described = up.kubectl("describe", "pod", waiting[0]["metadata"]["name"])
    assert "3 cannot allocate all claims" in described
    running = next(pod for pod in pods if pod["status"]["phase"] == "Running")
    claim = running["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
    assert "gpu.example.com" in up.kubectl("describe", "resourceclaim", claim)

    before = {pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"}
    up.kubectl("delete", "pod", running["metadata"]["name"])

    def another_runs() -> bool:
        now = {pod["metadata"]["name"] for pod in up.items("pods") if pod["status"]["phase"] == "Running"}
        return len(now) == 12 and bool(now - before)

    wait_for("another pod to get the device", another_runs)
    held = allocated(up)
    assert up.end() == 0

    up = start_up(*flags)
    wait_for("the same pods to run", lambda: counts(up) == (12, 3))
    assert allocated(up) == held
    assert {each["spec"]["pool"]["generation"] for each in up.items("resourceslices")} == {1}
    assert up.end() == 0


def allocated(up: Up) -> list[str]:
    return sorted(
        json.dumps([claim["metadata"]["name"], claim["status"]["allocation"]["devices"]["results"]])
        for claim in up.items("resourceclaims")
        if "allocation" in claim.get("status", {})
    )


def test_an_extended_resource(start_up: StartUp, tmp_path: Path) -> None:
    write_files(tmp_path)
    up = start_up(
        "--memory", "--shapes", str(tmp_path / "shapes.yaml"), "--devices", str(tmp_path / "devices.yaml")
    )
    limits = json.dumps(
        {
            "spec": {
                "containers": [{"name": "p", "image": "x", "resources": {"limits": {"example.com/gpu": "2"}}}]
            }
        }
    )
    up.kubectl("run", "p", "--image=x", f"--overrides={limits}")
    wait_for("the pod to run", lambda: counts(up) == (1, 0))
    (pod,) = up.items("pods")
    claim = pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    (found,) = up.items("resourceclaims")
    assert found["metadata"]["name"] == claim
    assert len(found["status"]["allocation"]["devices"]["results"]) == 2
    up.kubectl("delete", "pod", "p")
    wait_for("the claim to go with it", lambda: not up.items("resourceclaims"))
    assert up.end() == 0
