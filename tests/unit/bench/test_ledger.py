"""How far pods have come, by namespace and labels."""

from __future__ import annotations

from kuberth.bench.ledger import PodLedger, SeenPod, Stages


def pod(
    name: str, *, namespace: str = "a", node: str = "", attempted: bool = False, **labels: str
) -> SeenPod:
    return SeenPod(namespace, name, labels, node, attempted)


def test_every_pod_is_in_one_stage() -> None:
    ledger = PodLedger()
    for each in (
        pod("1", node="n"),
        pod("2", attempted=True, app="x"),
        pod("3"),
        pod("4", namespace="b", node="n", attempted=True),
    ):
        ledger.set(each)
    assert ledger.stages(("a",), {}) == Stages(1, 1, 1, "a/2")
    assert ledger.stages(("a", "b"), {}).scheduled == 2
    assert ledger.stages(("a",), {"app": "x"}) == Stages(0, 1, 0, "a/2")
    ledger.remove("a", "2")
    assert ledger.stages(("a",), {}) == Stages(1, 0, 1, "a/3")
    ledger.remove("c", "missing")


def test_listeners_hear_of_each_scheduling_once() -> None:
    ledger = PodLedger()
    heard: list[str] = []
    unsubscribe = ledger.listen(lambda seen: heard.append(seen.name))
    ledger.set(pod("1"))
    ledger.set(pod("1", node="n"))
    ledger.set(pod("1", node="n", attempted=True))
    ledger.set(pod("2", node="n"))
    ledger.remove("a", "1")
    ledger.set(pod("1", node="m"))
    unsubscribe()
    ledger.set(pod("3", node="n"))
    assert heard == ["1", "2", "1"]
