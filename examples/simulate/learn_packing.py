"""Train a small agent that chooses nodes, and compare it with the default scheduler.

The agent scores every feasible node by four features and takes the best. Its weights are learned by the
cross-entropy method: draw some, run them, continue around the best.

Run it:  python -m examples.simulate.learn_packing
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kuberth.simulation import (
    Arrival,
    Comparison,
    Environment,
    Experiment,
    Observation,
    PlannedWorkload,
    Policy,
    choosing_policy,
    nodes_of,
)


def workload(seed: int) -> PlannedWorkload:
    """Small pods, and now and then one that needs an empty node."""
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 3600, 60))
    return PlannedWorkload(
        [
            Arrival(float(at), float(rng.uniform(300, 900)), requests={"cpu": "8" if n % 6 == 5 else "1"})
            for n, at in enumerate(times)
        ]
    )


EXPERIMENT = Experiment(nodes_of(4), workload)


@dataclass(frozen=True)
class Agent:
    """A weight for each feature of a node."""

    weights: tuple[float, ...]

    def __call__(self, seen: Observation) -> int:
        free, pod = seen["free"], seen["pod"]
        left = free * seen["size"] - pod
        features = np.stack([free.mean(axis=1), free.min(axis=1), left.min(axis=1), free.max(axis=1)])
        scores = np.asarray(self.weights) @ features
        return int(np.where(seen["action_mask"] == 1, scores, -np.inf).argmax())


def episode(environment: Environment, agent: Agent, seed: int) -> float:
    """The sum of the rewards of one run: minus the seconds that pods waited."""
    seen, _ = environment.reset(seed=seed)
    total = 0.0
    while True:
        seen, reward, terminated, truncated, _ = environment.step(agent(seen))
        total += reward
        if terminated or truncated:
            return total


def train(*, rounds: int = 4, drawn: int = 8, seeds: int = 2) -> Agent:
    rng = np.random.default_rng(0)
    mean, spread = np.zeros(4), np.ones(4)
    environment = Environment(EXPERIMENT)
    for _ in range(rounds):
        agents = rng.normal(mean, spread, (drawn, 4))
        returns = [
            sum(episode(environment, Agent(tuple(each)), seed) for seed in range(seeds)) for each in agents
        ]
        best = agents[np.argsort(returns)[-max(2, drawn // 4) :]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 0.1
    return Agent(tuple(mean))


def compared(agent: Agent, *, seeds: int = 5) -> Comparison:
    """On seeds that the agent was not trained with."""
    return EXPERIMENT.compare(
        [Policy("default"), choosing_policy("agent", agent)], seeds=range(100, 100 + seeds)
    )


def main() -> None:
    for row in compared(train()).table():
        if row["figure"] in ("wait mean (s)", "wait p99 (s)"):
            print(row["figure"], row["variant"], row["mean"], row["difference low"], row["difference high"])


if __name__ == "__main__":
    main()
