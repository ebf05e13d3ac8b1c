"""Lets an agent choose nodes: a function as a policy, or step by step as Gymnasium's environments.

In: an experiment, and actions. Out: observations and rewards. The real scheduler queues, filters, preempts
and binds; of the feasible nodes of a pod, the agent chooses one. A pod with one feasible node needs no
choice.
"""

from __future__ import annotations

import asyncio
import importlib
import operator
import threading
from collections.abc import Callable, Mapping
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.errors import ConfigError, KuberthError
from kuberth.framework import CycleState, Handle, ScorePlugin
from kuberth.framework.extension_points import Scores
from kuberth.simulation.arrivals import requests_of
from kuberth.simulation.experiments import Experiment, Policy
from kuberth.simulation.observing import RunObserver, capacity_of
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.running import Scenario, no_report, simulate

Observation = dict[str, NDArray[Any]]
"""`free`: float32[node, resource], the free share of each node. `size`: float32[node, resource], its capacity
as a share of the largest. `pod`: float32[resource], the requests as a share of the largest node.
`action_mask`: int8[node], 1 where the pod fits."""
Choose = Callable[[Observation], int]
"""Chooses one of the nodes in `action_mask`, as an index into the sorted names of nodes."""

_AGENT: Final = "AgentChoice"
_CONFIG: Final[Mapping[str, Any]] = {
    "percentageOfNodesToScore": 100,
    "profiles": [
        {
            "plugins": {
                "preScore": {"disabled": [{"name": "*"}]},
                "score": {"disabled": [{"name": "*"}], "enabled": [{"name": _AGENT, "weight": 1}]},
            }
        }
    ],
}


def choosing_policy(name: str, choose: Choose) -> Policy:
    """A policy whose scores are the choices of a function; everything else has its default."""
    return Policy(name, config=_CONFIG, plugins={_AGENT: partial(AgentChoice, choose)})


class AgentChoice(ScorePlugin):
    """Gives the highest score to the node that an agent chooses."""

    name = _AGENT

    def __init__(self, choose: Choose, args: object, handle: Handle) -> None:
        self._choose = choose
        self._clock = handle.clock
        self._last: tuple[tuple[str, int, bytes], int] | None = None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores:
        """100 for the chosen node."""
        ordered, seen = observe(pod, nodes)
        # A cycle that is evaluated twice to check plans makes the same choice.
        key = pod.metadata.uid, self._clock.now_ns(), seen["action_mask"].tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, int(self._choose(seen))
        chosen = self._last[1]
        if not (0 <= chosen < len(ordered) and seen["action_mask"][chosen]):
            raise ValueError(f"the agent chose node {chosen}, where {pod.metadata.name} does not fit")
        scores = np.zeros(len(nodes), np.int64)
        position = nodes.position(ordered[chosen])
        assert position is not None
        scores[position] = 100
        return scores


def observe(pod: Pod, feasible: Nodes) -> tuple[list[str], Observation]:
    """The names of all nodes in order, and what an agent sees."""
    table = feasible.table
    rows = sorted(np.flatnonzero(table.live[: table.slots]).tolist(), key=lambda row: table.names[row])
    names = [table.names[row] for row in rows]
    resources = sorted(table.resources)
    columns = [table.resources[name] for name in resources]
    capacity = table.allocatable[np.ix_(columns, rows)].T.astype(np.float64)
    taken = table.requested[np.ix_(columns, rows)].T
    largest = np.maximum(capacity.max(axis=0, initial=0.0), 1.0)
    asked = requests_of(pod)
    wanted = np.array([asked.get(name, 0.0) * (1000 if name == "cpu" else 1) for name in resources])
    mask = np.zeros(len(rows), np.int8)
    mask[np.isin(rows, feasible.rows()[feasible.live()])] = 1
    return names, {
        "free": np.clip(1 - taken / np.maximum(capacity, 1.0), 0, 1).astype(np.float32),
        "size": (capacity / largest).astype(np.float32),
        "pod": np.minimum(wanted / largest, 1.0).astype(np.float32),
        "action_mask": mask,
    }


class AgentStep(NamedTuple):
    """What `Environment.step` returns, in Gymnasium's order."""

    observation: Observation
    """The observation; zeros at the end."""
    reward: float
    """Minus the seconds that all pods together have waited since the last step."""
    terminated: bool
    """Whether the run has ended."""
    truncated: bool
    """Whether it ended at the time limit of the experiment."""
    info: dict[str, Any]
    """`seconds`, the virtual time; `action_mask`, as observed; at the end `outcome`."""


class Environment:
    """An experiment in steps: the action of each step is the node for a pod.

    It has the methods of `gymnasium.Env` and does not need Gymnasium; `gymnasium_environment` returns one
    that is a `gymnasium.Env`. The rewards of a run add up to minus the sum of all waits. The scheduler runs
    in a separate thread, which works only while `reset` or `step` waits for it.
    """

    metadata: Mapping[str, Any] = {"render_modes": []}
    """As in Gymnasium."""
    render_mode: str | None = None
    """None: there is nothing to render."""

    def __init__(self, experiment: Experiment) -> None:
        if experiment.interruptions is not None:
            raise ConfigError("an environment has the same nodes all the time; remove the interruptions")
        self._experiment = experiment
        self._episode: _Episode | None = None
        self._seeds = np.random.default_rng(0)
        self.nodes = sorted(node.metadata.name for node in experiment.cluster.nodes)
        """The names of the nodes: an action is an index into them."""
        self.resources = _resources(experiment)
        """The resources of observations, in order."""

    @property
    def unwrapped(self) -> Environment:
        """The environment itself."""
        return self

    @property
    def action_space(self) -> Any:
        """`gymnasium.spaces.Discrete`; ConfigError without Gymnasium."""
        return _imported("gymnasium.spaces").Discrete(len(self.nodes))

    @property
    def observation_space(self) -> Any:
        """`gymnasium.spaces.Dict`; ConfigError without Gymnasium."""
        spaces, nodes, resources = _imported("gymnasium.spaces"), len(self.nodes), len(self.resources)
        return spaces.Dict(
            {
                "free": spaces.Box(0, 1, (nodes, resources), np.float32),
                "size": spaces.Box(0, 1, (nodes, resources), np.float32),
                "pod": spaces.Box(0, 1, (resources,), np.float32),
                "action_mask": spaces.MultiBinary(nodes),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a run, up to the first choice.

        Without a seed, it uses the next seed after the last given one.
        """
        self.close()
        if seed is None:
            seed = _next_seed(self._seeds)
        else:
            self._seeds = np.random.default_rng(seed)
        self._episode = _Episode(self._experiment, seed)
        first = self._episode.wait()
        if first.terminated or first.truncated:
            raise KuberthError("no pod of the workload has a choice of nodes")
        return first.observation, first.info

    def step(self, action: int) -> AgentStep:
        """Place the pod on this node and run to the next choice; ValueError if the pod does not fit there."""
        if self._episode is None or self._episode.over:
            raise KuberthError("there is no run; call reset first")
        return self._episode.step(_as_index(action))

    def render(self) -> None:
        """Does nothing: outcomes have plots."""

    def close(self) -> None:
        """End the run."""
        if self._episode is not None:
            self._episode.close()
            self._episode = None


def gymnasium_environment(experiment: Experiment, *, strict: bool = False) -> Any:
    """The experiment as a `gymnasium.Env`, for wrappers and agent libraries.

    Gymnasium expects every action of the space to be possible, and not every agent reads `action_mask`: a
    node where the pod does not fit means the next one where it does, and `info["action"]` is the chosen node.
    With `strict`, such an action is a ValueError, as in `Environment`. ConfigError without Gymnasium.
    """
    steps = Environment(experiment)
    base: Any = _imported("gymnasium").Env

    class ExperimentEnvironment(base):  # type: ignore[misc]  # imported where it is needed
        """`Environment` as a Gymnasium class."""

        metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

        def __init__(self) -> None:
            self.action_space = steps.action_space
            self.observation_space = steps.observation_space
            self._mask: NDArray[Any] = np.zeros(0, np.int8)

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Observation, dict[str, Any]]:
            super().reset(seed=seed)
            seen, info = steps.reset(seed=_next_seed(self.np_random) if seed is None else seed)
            self._mask = seen["action_mask"]
            return seen, info

        def step(self, action: int) -> AgentStep:
            index = _as_index(action)
            if not strict and 0 <= index < len(self._mask):
                fitting = np.flatnonzero(self._mask)
                index = (
                    int(fitting[np.searchsorted(fitting, index) % len(fitting)]) if len(fitting) else index
                )
            taken = steps.step(index)
            self._mask = taken.observation["action_mask"]
            return taken._replace(info={**taken.info, "action": index})

        def close(self) -> None:
            steps.close()

    return ExperimentEnvironment()


def _next_seed(generator: np.random.Generator) -> int:
    """The seed of the next run."""
    return int(generator.integers(2**31))


def _as_index(action: object) -> int:
    """An action as the index of a node; TypeError for anything but a whole number."""
    try:
        return operator.index(action)  # type: ignore[arg-type]  # refused below
    except TypeError:
        raise TypeError(f"an action is the index of a node, a whole number; got {action!r}") from None


class _Episode:
    """A run in a thread, which hands over every choice."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.over = False
        self._seed = seed
        self._to_agent: SimpleQueue[AgentStep | BaseException] = SimpleQueue()
        self._to_run: SimpleQueue[int | None] = SimpleQueue()
        self._observer: RunObserver | None = None
        self._task: asyncio.Task[Any] | None = None
        self._waited = 0.0
        self._last: Observation = {}
        scenario = experiment.scenario(choosing_policy("agent", self._choose), seed=seed)
        self._truncated = experiment.until is not None
        self._thread = threading.Thread(target=self._run, args=(scenario,), name="simulation", daemon=True)
        self._thread.start()

    def wait(self) -> AgentStep:
        got = self._to_agent.get()
        if isinstance(got, BaseException):
            self.over = True
            raise got
        self.over = got.terminated or got.truncated
        self._last = got.observation
        return got

    def step(self, action: int) -> AgentStep:
        mask = self._last["action_mask"]
        if not (0 <= action < len(mask) and mask[action]):
            fitting = ", ".join(map(str, np.flatnonzero(mask)))
            raise ValueError(f"the pod does not fit on node {action}; it fits on {fitting}")
        self._to_run.put(action)
        return self.wait()

    def close(self) -> None:
        if not self.over:
            self._to_run.put(None)
        self._thread.join()

    def _run(self, scenario: Scenario) -> None:
        try:
            outcome = simulate(scenario, seed=self._seed, report=no_report, on_start=self._begin)
            self._to_agent.put(self._end(outcome))
        except BaseException as error:  # raised where the agent waits
            self._to_agent.put(error)

    def _begin(self, observer: RunObserver) -> None:
        self._observer = observer
        self._task = asyncio.current_task()

    def _choose(self, seen: Observation) -> int:
        assert self._observer is not None
        assert self._task is not None
        seconds = self._observer.seconds
        info = {"seconds": seconds, "action_mask": seen["action_mask"]}
        self._to_agent.put(AgentStep(seen, self._reward(), terminated=False, truncated=False, info=info))
        action = self._to_run.get()
        if action is None:
            self._task.cancel()
            return int(np.flatnonzero(seen["action_mask"])[0])
        return action

    def _end(self, outcome: Outcome) -> AgentStep:
        empty = {name: np.zeros_like(value) for name, value in self._last.items()}
        info = {"seconds": outcome.seconds, "outcome": outcome}
        cut = self._truncated
        return AgentStep(empty, self._reward(), terminated=not cut, truncated=cut, info=info)

    def _reward(self) -> float:
        assert self._observer is not None
        before, self._waited = self._waited, self._observer.waiting_seconds()
        return before - self._waited


def _resources(experiment: Experiment) -> list[str]:
    """The amounts in the scheduler's table, which counts the number of pods separately."""
    offered = {name for node in experiment.cluster.nodes for name in capacity_of(node)}
    return sorted(offered - {"pods"})


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError("this needs Gymnasium: pip install gymnasium") from error
