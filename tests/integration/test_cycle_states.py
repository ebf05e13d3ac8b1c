"""A CycleState lives for one attempt of one pod, from PreFilter to PostBind (KEP-624)."""

from __future__ import annotations

from typing import Any

import pytest

from kuberth.api.core import Pod
from kuberth.clock import run_in_virtual_time
from kuberth.cluster.nodes import Nodes
from kuberth.framework import CycleState
from kuberth.framework.cycle_state import StateKey
from kuberth.framework.status import Status
from kuberth.testing import make_node, make_pod
from kuberth.testing.harness import running_with
from tests.integration.recording import Recording

MARK = StateKey[str]("mark")


class Marking(Recording):
    """Writes a mark at PreFilter and notes what it finds there and later."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []
        self.marks = 0

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        self.found.append((f"PreFilter {pod.metadata.name}", state.get(MARK)))
        self.marks += 1
        state.write(MARK, f"{pod.metadata.name}-{self.marks}")
        return super().pre_filter(state, pod, nodes)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Any:
        self.found.append((f"Reserve {pod.metadata.name}", state.get(MARK)))
        return super().reserve(state, pod, node_name)

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.found.append((f"PostBind {pod.metadata.name}", state.get(MARK)))


@pytest.mark.parametrize("point", ["Filter", "Reserve", "Permit", "PreBind"])
def test_every_attempt_starts_with_an_empty_state(point: str) -> None:
    async def scenario() -> None:
        plugin = Marking()
        answers = iter([Status.unschedulable("not yet")])
        plugin.behave[point] = lambda _pod: next(answers, None)
        async with running_with(plugin, make_node("n1"), make_pod("p")) as world:
            await world.until(lambda: world.queue_of("p") in ("unschedulable", "backoff"))
            world.api.put(make_node("n2"))
            await world.bound("p", seconds=5)
            world.api.put(make_pod("q"))
            await world.bound("q", seconds=5)
            await world.until(lambda: plugin.found[-1][0] == "PostBind q")
        starts = [found for where, found in plugin.found if where.startswith("PreFilter")]
        assert starts == [None, None, None]
        last = {where: found for where, found in plugin.found if not where.startswith("PreFilter")}
        assert last == {
            "Reserve p": "p-2",
            "PostBind p": "p-2",
            "Reserve q": "q-3",
            "PostBind q": "q-3",
        }

    run_in_virtual_time(scenario)
