"""Agents that choose nodes, as a policy and step by step."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import msgspec
import numpy as np
import pytest
from examples.simulate.learn_packing import compared, train

from kuberth.errors import ConfigError, KuberthError
from kuberth.simulation import (
    Environment,
    Experiment,
    FixedWorkload,
    GeneratedWorkload,
    Observation,
    Outcome,
    SpotInterruptions,
    choosing_policy,
    gymnasium_environment,
    nodes_of,
)
from tests.unit.simulation.harness import pod

SMALL = Experiment(nodes_of(3), GeneratedWorkload("services", pods=25, days=0.05))


def last(seen: Observation) -> int:
    return int(np.flatnonzero(seen["action_mask"])[-1])


def played(environment: Environment, choose: Any, *, seed: int) -> tuple[list[int], float, Outcome]:
    seen, _ = environment.reset(seed=seed)
    actions, total = [], 0.0
    while True:
        actions.append(choose(seen))
        seen, reward, terminated, truncated, info = environment.step(actions[-1])
        total += reward
        if terminated or truncated:
            return actions, total, info["outcome"]


def test_steps_and_a_policy_make_the_same_run() -> None:
    _actions, _total, outcome = played(Environment(SMALL), last, seed=4)
    own = SMALL.run(choosing_policy("agent", last), seed=4)
    assert msgspec.json.encode(outcome) == msgspec.json.encode(own)


def test_decisions_replay() -> None:
    rng = random.Random(1)
    environment = Environment(SMALL)
    actions, total, outcome = played(
        environment, lambda seen: rng.choice(np.flatnonzero(seen["action_mask"]).tolist()), seed=4
    )
    again = iter(actions)
    repeated = played(environment, lambda _seen: next(again), seed=4)
    assert repeated[:2] == (actions, total)
    assert msgspec.json.encode(repeated[2]) == msgspec.json.encode(outcome)
    assert len(actions) > 10


def test_rewards_add_up_to_minus_all_waits() -> None:
    crowded = Experiment(nodes_of(2), FixedWorkload([pod(n, 100, cpu="5") for n in range(9)]))
    _actions, total, outcome = played(Environment(crowded), last, seed=0)
    assert -total == pytest.approx(sum(row["wait"] for row in outcome.pods_table()))
    assert total < -100


def test_an_observation_shows_nodes_and_the_pod() -> None:
    shapes = [
        {"name": "big", "count": 1, "capacity": {"cpu": "8", "memory": "32Gi"}},
        {"name": "small", "count": 2, "capacity": {"cpu": "4", "memory": "32Gi"}},
    ]
    workload = FixedWorkload([pod(0, 50, cpu="2"), pod(1, 50, cpu="3")])
    environment = Environment(Experiment(nodes_of(shapes=shapes), workload))
    seen, _ = environment.reset(seed=1)
    cpu = environment.resources.index("cpu")
    assert environment.nodes == ["big-1", "small-1", "small-2"]
    assert seen["size"][:, cpu].tolist() == [1.0, 0.5, 0.5]
    assert seen["pod"][cpu] == 0.25
    assert {name: value.shape for name, value in seen.items()} == {
        "free": (3, len(environment.resources)),
        "size": (3, len(environment.resources)),
        "pod": (len(environment.resources),),
        "action_mask": (3,),
    }
    step = environment.step(1)
    assert step.observation["free"][:, cpu].tolist() == [1.0, 0.5, 1.0]
    assert step.info["action_mask"].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="it fits on 0, 2"):
        environment.step(1)
    assert environment.step(0).terminated
    with pytest.raises(KuberthError, match="call reset"):
        environment.step(0)


def test_a_run_at_its_time_limit_is_truncated() -> None:
    limited = Experiment(nodes_of(2), FixedWorkload([pod(0, 50), pod(100, 50)]), until=10)
    environment = Environment(limited)
    environment.reset()
    step = environment.step(0)
    assert (step.terminated, step.truncated) == (False, True)


def test_closing_ends_the_thread() -> None:
    before = set(threading.enumerate())
    environment = Environment(SMALL)
    environment.reset(seed=1)
    environment.reset(seed=2)
    [thread] = set(threading.enumerate()) - before
    environment.close()
    assert not thread.is_alive()


def test_what_has_no_choices_or_changing_nodes_is_refused() -> None:
    with pytest.raises(KuberthError, match="no pod of the workload"):
        Environment(Experiment(nodes_of(1), FixedWorkload([pod(0, 1)]))).reset()
    with pytest.raises(ConfigError, match="interruptions"):
        Environment(Experiment(nodes_of(1), FixedWorkload([]), interruptions=SpotInterruptions()))


def seconds_of_first_choices(environment: Any, resets: int, *, seed: int | None) -> list[float]:
    first = [environment.reset(seed=seed)[1]["seconds"]]
    return [*first, *(environment.reset()[1]["seconds"] for _ in range(resets))]


def test_resets_without_a_seed_go_on_from_the_last_one() -> None:
    made = [seconds_of_first_choices(Environment(SMALL), 3, seed=seed) for seed in (7, 7, 8, None)]
    assert made[0] == made[1]
    assert len(set(made[0])) == 4, "each run is another one"
    assert made[0] != made[2]
    assert len(set(made[3])) == 4


@pytest.mark.parametrize("action", [1.5, 1.0, "1", None, np.float32(1)], ids=repr)
def test_an_action_that_is_no_whole_number(action: Any) -> None:
    environment = Environment(SMALL)
    environment.reset(seed=1)
    with pytest.raises(TypeError, match="a whole number; got"):
        environment.step(action)
    environment.close()


def test_gymnasium_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.setitem(sys.modules, "gymnasium.spaces", None)
    with pytest.raises(ConfigError, match="pip install gymnasium"):
        _ = Environment(SMALL).action_space
    with pytest.raises(ConfigError, match="pip install gymnasium"):
        gymnasium_environment(SMALL)


HALF_FULL = Experiment(
    nodes_of(
        shapes=[{"name": name, "count": 1, "capacity": {"cpu": cpu}} for name, cpu in ("a8", "b2", "c8")]
    ),
    FixedWorkload([pod(0, 50, cpu="4"), pod(1, 50, cpu="4")]),
)
"""No pod fits on the node in the middle."""


def test_gymnasium_takes_the_environment_for_its_own() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    checker = pytest.importorskip("gymnasium.utils.env_checker")
    environment = gymnasium_environment(HALF_FULL)
    assert isinstance(environment, gymnasium.Env)
    checker.check_env(environment, skip_render_check=True)
    wrapped = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.FlattenObservation(environment))
    wrapped.reset(seed=1)
    done, steps = False, 0
    while not done:
        _, _, terminated, truncated, info = wrapped.step(wrapped.action_space.sample())
        done, steps = terminated or truncated, steps + 1
    assert info["episode"]["l"] == steps
    assert info["outcome"].pods.placed == 2
    wrapped.close()


def test_actions_where_the_pod_does_not_fit_under_gymnasium() -> None:
    pytest.importorskip("gymnasium")
    environment = gymnasium_environment(HALF_FULL)
    environment.reset(seed=1)
    assert environment.step(1)[4]["action"] == 2, "the next node where it fits"
    environment.reset(seed=1)
    assert environment.step(0)[4]["action"] == 0
    with pytest.raises(ValueError, match="does not fit on node 3"):
        environment.step(3)
    environment.close()
    strict = gymnasium_environment(HALF_FULL, strict=True)
    strict.reset(seed=1)
    with pytest.raises(ValueError, match="does not fit on node 1; it fits on 0, 2"):
        strict.step(1)
    strict.close()


def test_seeded_resets_under_gymnasium() -> None:
    pytest.importorskip("gymnasium")
    first, second = (seconds_of_first_choices(gymnasium_environment(SMALL), 3, seed=7) for _ in range(2))
    assert first == second
    assert len(set(first)) == 4
    assert first[0] == Environment(SMALL).reset(seed=7)[1]["seconds"]


def test_the_example_learns_to_leave_nodes_empty() -> None:
    agent = train(rounds=2, drawn=6, seeds=1)
    found = compared(agent, seeds=2)
    assert found.figure("wait mean (s)", "agent").difference < 0
