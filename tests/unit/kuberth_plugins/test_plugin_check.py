"""`kuberth plugin check` finds nothing, not even a warning, in any plugin of the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kuberth.cli import cli

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: gang, labels: {scheduling.x-k8s.io/pod-group: a}}
spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata: {name: prepared, annotations: {plugins.kuberth.io/prepare: disk}}
spec: {containers: [{name: main}]}
"""
PLUGINS = {
    "coscheduling:Coscheduling": "",
    "capacity_scheduling:CapacityScheduling": "",
    "load_aware:LoadAware": "",
    "two_step_binding:TwoStepBinding": "",
    "namespace_pod_quota:NamespacePodQuota": "pods: {default: 1}",
    "strict_fifo:StrictFifoQueue": "",
}


@pytest.mark.parametrize("reference, args", PLUGINS.items(), ids=PLUGINS)
def test_it_keeps_every_rule(reference: str, args: str, tmp_path: Path) -> None:
    command = ["plugin", "check", f"kuberth_plugins.{reference}", "--clusters", "4", "-o", "json"]
    (tmp_path / "pods.yaml").write_text(PODS)
    command += ["--pods", str(tmp_path / "pods.yaml")]
    if args:
        (tmp_path / "args.yaml").write_text(args)
        command += ["--args", str(tmp_path / "args.yaml")]
    checked = CliRunner().invoke(cli, command)
    assert checked.exit_code == 0, checked.output
    findings = json.loads(checked.output)["findings"]
    assert len(findings) >= 8
    assert [each for each in findings if each["outcome"] not in ("ok", "skipped")] == []
