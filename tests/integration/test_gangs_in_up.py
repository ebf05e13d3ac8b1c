"""The gang of docs/gangs.md in a whole local cluster: its API server, its job controller, its nodes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from kuberth.config import FeatureGates
from kuberth.local.manifests import Manifest
from kuberth.programs.up.cluster import ClusterSettings, running_cluster
from kuberth.text.documents import read_documents

PAGE = Path(__file__).parents[2] / "docs" / "gangs.md"
GATES = FeatureGates({"GenericWorkload": True, "GangScheduling": True})
GROUPS = "podgroups.scheduling.k8s.io"


def gang(cpu: str) -> list[Manifest]:
    block = re.search(r"```yaml\n(# gang.yaml\n.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    text = block[1].replace('cpu: "2"', f'cpu: "{cpu}"')
    documents, errors = read_documents(text.encode())
    assert not errors
    trees = [document.tree for document in documents]
    return [
        Manifest({**tree, "metadata": {**tree["metadata"], "namespace": "default"}})
        for tree in trees
        if isinstance(tree, dict)
    ]


async def outcome(cpu: str) -> tuple[str, str, int]:
    """The group's condition once there is one, and how many of its pods have a node."""
    settings = ClusterSettings(nodes=2, port=0, manifests=tuple(gang(cpu)), feature_gates=dict(GATES))
    async with asyncio.timeout(60), running_cluster(settings) as cluster:
        while True:
            group = await cluster.core.get(GROUPS, "training", namespace="default")
            conditions = group.get("status", {}).get("conditions", ())
            if conditions:
                break
            await asyncio.sleep(0.02)
        pods = (await cluster.core.list("pods", namespace="default"))["items"]
        while conditions[0]["status"] == "True" and not all(pod["spec"].get("nodeName") for pod in pods):
            await asyncio.sleep(0.02)
            pods = (await cluster.core.list("pods", namespace="default"))["items"]
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
        return conditions[0]["status"], conditions[0]["reason"], placed


def test_the_gang_runs() -> None:
    assert asyncio.run(outcome("2")) == ("True", "Scheduled", 3)


def test_a_gang_that_asks_for_too_much_does_not() -> None:
    assert asyncio.run(outcome("20")) == ("False", "Unschedulable", 0)
