"""What a run plays, drawn from its seed.

In: a seed and what the server under test can suffer. Out: clients, objects, and faults with their moments.
The draw is repeatable; the interleaving of processes is not: a seed makes a defect likely again, not certain.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.histories.targets import Target


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to the server, `after` seconds of the one before."""

    after: float
    kind: str
    """A way down, "full" or "slow"."""
    seconds: float = 0.0
    """How long the disk is full, how slow a sync is, how long etcd is away."""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    clients: int
    watchers: int
    kinds: tuple[str, ...]
    namespaces: tuple[str, ...]
    names: tuple[str, ...]
    keep_changes: int
    faults: tuple[Fault, ...]
    calm: float
    """How long the clients go on after the last fault."""


MANY_CHANGES = 20_000
FEW_CHANGES = 12


def draw_plan(seed: int, *, slow_start: bool = False) -> Plan:
    """`slow_start` is for servers that take seconds to start: one restart, and more time for clients."""
    rng = random.Random(f"plan {seed}")
    return Plan(
        seed=seed,
        clients=rng.randint(3, 6),
        watchers=rng.randint(1, 3),
        kinds=("configmaps",) if rng.random() < 0.5 else ("configmaps", "secrets"),
        namespaces=("default",) if rng.random() < 0.5 else ("default", "kube-public"),
        names=tuple(f"s{seed}-{letter}" for letter in "abcd"[: rng.randint(1, 4)]),
        keep_changes=MANY_CHANGES if slow_start or rng.random() < 0.75 else FEW_CHANGES,
        faults=(),
        calm=rng.uniform(0.05, 0.15),
    )


def draw_faults(plan: Plan, target: Target, *, slow_start: bool = False) -> tuple[Fault, ...]:
    rng = random.Random(f"faults {plan.seed}")
    faults = []
    for _ in range(1 if slow_start else rng.randint(1, 4)):
        # Now and then a fault follows at once, before the server has written again.
        most = 0.02 if rng.random() < 0.25 else 0.18
        after = rng.uniform(0.2, 0.6) if slow_start else rng.uniform(0.0, most)
        if target.has_disk and rng.random() < 0.4:
            # With few changes kept, watches have gaps, and every write that failed is one that may have
            # happened: too many orders to try.
            if rng.random() < 0.5 and plan.keep_changes == MANY_CHANGES:
                faults.append(Fault(after, "full", rng.uniform(0.02, 0.1)))
            else:
                faults.append(Fault(after, "slow", rng.choice((0.002, 0.01, 0.03))))
            after = rng.uniform(0.0, 0.12)
        faults.append(Fault(after, rng.choice(target.ways_down), rng.uniform(0.0, 1.0)))
    return tuple(faults)
