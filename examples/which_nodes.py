"""What if: which nodes would take this pod, and why not the others? No scheduler runs.

Run it:  python -m examples.which_nodes
"""

from __future__ import annotations

from kuberth.evaluation import Answer, Evaluator
from kuberth.testing import make_node, make_pod


def ask() -> Answer:
    nodes = [
        make_node("small", cpu="1"),
        make_node("reserved", taints=[{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]),
        make_node("busy", cpu="4"),
        make_node("free", cpu="4"),
    ]
    placed = [make_pod("tenant", cpu="2", node="busy")]
    return Evaluator([*nodes, *placed]).evaluate(make_pod("web", cpu="1500m", memory="1Gi"))


def main() -> None:
    answer = ask()
    for name in sorted(answer.totals, key=lambda node: -answer.totals[node]):
        print(f"{name}: {answer.totals[name]} points")
    for name, status in sorted(answer.rejections.items()):
        print(f"{name}: no ({status.plugin}: {status.message})")


if __name__ == "__main__":
    main()
