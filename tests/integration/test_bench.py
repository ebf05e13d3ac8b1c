"""`kuberth bench --target up`: the embedded server, Kuberth and a peer, each a process, over HTTPS."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.bench.harness import FILES

CASES = """
- name: Over HTTPS
  workloadTemplate:
  - {opcode: createNodes, count: 3, nodeTemplatePath: node.yaml}
  - {opcode: createAny, namespace: maps, templatePath: config-map.yaml, count: 2}
  - {opcode: createPods, count: 2, podTemplatePath: priority.yaml}
  - opcode: createPods
    count: 2
    persistentVolumeTemplatePath: pv.yaml
    persistentVolumeClaimTemplatePath: pvc.yaml
  - {opcode: updateAny, templatePath: node-labelled.yaml, count: 3}
  - {opcode: createPods, count: 3, namespace: held, podTemplatePath: held.yaml, skipWaitToCompletion: true}
  - {opcode: barrier, stageRequirement: Attempted}
  - {opcode: deletePods, namespace: held}
  - {opcode: createPods, count: 5, namespace: measured, collectMetrics: true}
  workloads:
  - name: tiny
"""


def test_every_program_does_its_part(tmp_path: Path) -> None:
    for name, text in {**FILES, "cases.yaml": CASES}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kuberth",
            "bench",
            "cases.yaml",
            "--target=up",
            "--peer=blind",
            "--output=json",
        ],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["results"]
    rows = {row["scheduler"]: row for row in found["measurements"]}
    assert {name: row["scheduled"] for name, row in rows.items()} == {"kuberth": 5, "blind": 5}
    assert rows["kuberth"]["attemptMs"]["p50"] > 0
    assert rows["kuberth"]["peakMiB"] > 10
    assert list(temporary.iterdir()) == []
