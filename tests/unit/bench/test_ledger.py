"""How far pods have come, by namespace and labels."""

from __future__ import annotations

from kuberth.bench.collecting import PodLedger, Stages
from kuberth.local.apiserver.objects import Obj, name_of


def pod(name: str, *, namespace: str = "a", node: str = "", attempted: bool = False, **labels: str) -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False"}]} if attempted else {},
    }


def test_every_pod_is_in_one_stage() -> None:
    ledger = PodLedger()
    for each in (
        pod("1", node="n"),
        pod("2", attempted=True, app="x"),
        pod("3"),
        pod("4", namespace="b", node="n", attempted=True),
    ):
        ledger.handle(None, each)
    assert ledger.stages(("a",), {}) == Stages(1, 1, 1, "a/2")
    assert ledger.stages(("a", "b"), {}).scheduled == 2
    assert ledger.stages(("a",), {"app": "x"}) == Stages(0, 1, 0, "a/2")
    ledger.handle(pod("2"), None)
    assert ledger.stages(("a",), {}) == Stages(1, 0, 1, "a/3")
    ledger.handle(pod("missing", namespace="c"), None)


def test_listeners_hear_of_each_scheduling_once() -> None:
    ledger = PodLedger()
    heard: list[str] = []
    unsubscribe = ledger.listen(lambda seen: heard.append(name_of(seen)))
    ledger.handle(None, pod("1"))
    ledger.handle(None, pod("1", node="n"))
    ledger.handle(None, pod("1", node="n", attempted=True))
    ledger.handle(None, pod("2", node="n"))
    ledger.handle(pod("1"), None)
    ledger.handle(None, pod("1", node="m"))
    unsubscribe()
    ledger.handle(None, pod("3", node="n"))
    assert heard == ["1", "2", "1"]
