"""Searches for a better scheduler configuration for a workload.

In: an experiment to search on, another to check on, and an objective. Out: configurations that are better
than the base on unseen runs, or none. Optuna's TPE sampler searches weights of score plugins, the scoring
strategy of NodeResourcesFit and chosen arguments; the same seed gives the same result, also after a resume.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

import kuberth
from kuberth.api.wire import encode
from kuberth.config.in_tree import IN_TREE_PLUGINS
from kuberth.config.plugin_args import MAX_CUSTOM_SCORE
from kuberth.config.resolve import plugins_named, resolve_profile
from kuberth.config.types import KubeSchedulerProfile
from kuberth.errors import ConfigError
from kuberth.simulation.clusters import ClusterState
from kuberth.simulation.comparing import Comparison, compare, interval
from kuberth.simulation.experiments import Experiment, Policy
from kuberth.simulation.node_policies import NodePolicy
from kuberth.simulation.outcomes import Outcome, Waits, rounded
from kuberth.simulation.sweeping import run_all
from kuberth.simulation.workloads import PlannedWorkload
from kuberth.text.field_errors import InvalidConfiguration
from kuberth.text.figures import duration

WEIGHTED_PLUGINS: Final = (
    "NodeResourcesFit",
    "NodeResourcesBalancedAllocation",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeAffinity",
    "TaintToleration",
)
"""Score plugins whose weights are searched if the workload gives them something to score."""
MAX_WEIGHT: Final = 10
RATIO: Final = "RequestedToCapacityRatio"
STRATEGIES: Final = ("LeastAllocated", "MostAllocated", RATIO)
UTILIZATIONS: Final = (0, 50, 100)
"""The points of the RequestedToCapacityRatio shape, in percent utilization; their scores are searched."""
_FIT: Final = "NodeResourcesFit"
_BATCH: Final = 4
"""Configurations proposed before the next results are used; the number of processes has no effect."""
CANDIDATES: Final = 3
"""How many configurations are checked on unseen runs."""
CONFIDENCE: Final = 0.99
"""The confidence at which a configuration counts as better."""
MIN_GAIN: Final = 0.01
"""The minimum improvement, as a share of the base's value."""
_UNSEEN: Final = 1_000_000
"""The offset of the seeds for unseen runs."""

Parameters = dict[str, Any]
"""A proposed configuration: weights by plugin, `strategy`, `resource NAME` with the weight of a resource,
`argument PLUGIN.NAME`, and with RequestedToCapacityRatio `shape PERCENT` with the score of a point."""
_ARGUMENT: Final = "argument "

OBJECTIVES: Final[Mapping[str, Callable[[Outcome], float]]] = {
    "waiting": lambda each: each.pods.waiting,
    "preempted": lambda each: each.pods.preempted,
    "attempts-wasted": lambda each: each.attempts_wasted,
    "fragmentation": lambda each: each.fragmentation,
    "unfairness": lambda each: 1 - each.fairness,
    "nodes": lambda each: each.nodes_mean,
    "nodes-used": lambda each: each.nodes_used,
}
"""Figures that can be minimized, besides waits."""
WAITS: Final = ("mean", "p50", "p90", "p99", "longest")


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted sum of figures to minimize."""

    weights: Mapping[str, float]
    """Weights by figure: a name of `OBJECTIVES`, or `wait-p99` and the like, for one priority
    `wait-p99@1000`."""

    def __post_init__(self) -> None:
        if not self.weights:
            raise ConfigError("an objective has at least one figure")
        for name, weight in self.weights.items():
            kind, at, priority = name.partition("@")
            is_wait = kind.startswith("wait-") and kind.removeprefix("wait-") in WAITS
            if not (is_wait or (name in OBJECTIVES)) or (at and not priority.lstrip("-").isdigit()):
                known = ", ".join((*(f"wait-{each}[@PRIORITY]" for each in WAITS), *OBJECTIVES))
                raise ConfigError(f"there is no objective {name!r}; there are {known}")
            if not weight > 0:
                raise ConfigError(f"objective {name}: the weight is a positive number, got {weight:g}")

    @classmethod
    def parse(cls, texts: Sequence[str]) -> Objective:
        """Parse `NAME` and `NAME=WEIGHT`."""
        weights: dict[str, float] = {}
        for text in texts:
            name, equals, weight = text.partition("=")
            try:
                weights[name] = float(weight) if equals else 1.0
            except ValueError as error:
                raise ConfigError(f"objective {text}: {weight!r} is not a number") from error
        return cls(weights)

    def value(self, outcome: Outcome) -> float:
        """The sum for one run."""
        return rounded(sum(weight * _figure(outcome, name) for name, weight in self.weights.items()))

    def shown(self, value: float, *, signed: bool = False) -> str:
        """A value as text: a wait as a duration, a sum of several figures as a number."""
        [first, *others] = self.weights.items()
        is_wait = not others and first[0].startswith("wait-") and first[1] == 1
        text = duration(value) if is_wait else f"{value:g}"
        return f"+{text}" if signed and value > 0 else text

    def __str__(self) -> str:
        return " + ".join(
            name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.weights.items()
        )


def _figure(outcome: Outcome, name: str) -> float:
    if name in OBJECTIVES:
        return OBJECTIVES[name](outcome)
    kind, at, priority = name.removeprefix("wait-").partition("@")
    waits: Waits | None = outcome.waits_by_priority.get(priority) if at else outcome.waits
    return 0.0 if waits is None else float(getattr(waits, kind))


class TunedConfiguration(msgspec.Struct, frozen=True):
    """A configuration, checked on unseen runs."""

    name: str
    """Its name in the comparison."""
    config: dict[str, Any]
    """The configuration as in YAML."""
    searched: float
    """Mean difference of the objective to the base in the search."""
    difference: float
    """Mean difference to the base on unseen runs."""
    low: float
    """The lower bound of its 95 % confidence interval."""
    high: float
    """The upper bound."""
    is_better: bool
    """Whether the difference is below zero with 99 % confidence, and by at least 1 % of the base."""


class Tuned(msgspec.Struct, frozen=True):
    """The result of a search."""

    base: float
    """Mean value of the objective on unseen runs with the base configuration."""
    candidates: list[TunedConfiguration]
    """Best first; empty if nothing was better than the base in the search."""
    comparison: Comparison
    """The base and all candidates on the unseen runs."""

    @property
    def better(self) -> list[TunedConfiguration]:
        """The candidates that are better than the base."""
        return [each for each in self.candidates if each.is_better]


class TuningProgress(msgspec.Struct, frozen=True):
    """The progress of a search."""

    tried: int
    """The number of configurations tried."""
    trials: int
    """The number of configurations to try."""
    best: float
    """The best mean difference to the base so far; 0: none is better."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """A search."""

    experiment: Experiment
    """Where the search runs."""
    objective: Objective
    """The objective to minimize."""
    base: Mapping[str, Any] = field(default_factory=dict)
    """The configuration to start from and compare with, as in YAML; empty: the default."""
    policy: Policy = field(default_factory=Policy)
    """Plugins, queue, gates and nodes of all runs."""
    unseen: Experiment | None = None
    """Where candidates are checked; None: the same experiment with other seeds."""
    trials: int = 40
    """Configurations to try."""
    seeds: int = 3
    """Runs of each configuration in the search."""
    unseen_seeds: int = 10
    """Runs of each candidate on the unseen experiment."""
    seed: int = 0
    """The seed of the search, and the first one of its runs."""
    search: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By `PLUGIN.argument`: the minimum and the maximum to try; integers if both are."""

    def run(
        self,
        *,
        file: Path | None = None,
        processes: int | None = 1,
        dask: str = "",
        on_progress: Callable[[TuningProgress], None] = lambda _progress: None,
    ) -> Tuned:
        """Search and check. `file` saves finished runs, so that the search can be resumed."""
        if self.trials < 1 or self.seeds < 1 or self.unseen_seeds < 2:
            raise ConfigError("a search has at least one trial, one seed and two unseen seeds")
        self.check()
        finished = _FinishedRuns(file, self._identity())
        return _Search(self, finished, processes=processes, dask=dask, on_progress=on_progress).run()

    def check(self) -> None:
        """ConfigError for an objective or an argument that the search cannot use."""
        unseen = () if self.unseen is None else ((self.unseen, self.seed + _UNSEEN),)
        for experiment, first in ((self.experiment, self.seed), *unseen):
            self._check_priorities(experiment, range(first, first + self.seeds))
        named = {name for profile in self._profiles() for name in plugins_named(profile)}
        for argument, bounds in self.search.items():
            plugin, dot, name = argument.partition(".")
            if not dot or not plugin or not name:
                raise ConfigError(f"search {argument}: expected PLUGIN.argument")
            if not bounds[0] < bounds[1]:
                raise ConfigError(f"search {argument}: {bounds[0]:g} is not below {bounds[1]:g}")
            if plugin not in named:
                raise ConfigError(f"search {argument}: the configuration enables no plugin {plugin}")
            for bound in bounds:
                config = with_parameters(self.base, {f"{_ARGUMENT}{argument}": bound})
                try:
                    replace(self.policy, config=config).loaded()
                except InvalidConfiguration as error:
                    problem = "; ".join(map(str, error.errors))
                    raise ConfigError(f"search {argument}: {bound:g} is invalid: {problem}") from error

    def _check_priorities(self, experiment: Experiment, seeds: Sequence[int]) -> None:
        wanted = {name: name.partition("@")[2] for name in self.objective.weights if "@" in name}
        if not wanted:
            return
        found: set[int] = set()
        for seed in seeds:
            planned = experiment.workload(seed)
            if planned.managed or experiment.cluster.managed:
                return  # controllers make the pods
            found.update(each.priority or each.spec.get("priority", 0) for each in planned.arrivals)
        for name, priority in wanted.items():
            if int(priority) not in found:
                there = ", ".join(map(str, sorted(found))) or "no pods at all"
                raise ConfigError(f"objective {name}: no pod has priority {priority}; there are {there}")

    def own_weights(self) -> Mapping[str, int]:
        """The score plugins that the base enables and that are not in-tree, with their weights."""
        points = self.policy.registry().extension_points()
        return {
            name: weight
            for profile in self._profiles()
            for name, weight in resolve_profile(profile, points).score_weights.items()
            if name not in IN_TREE_PLUGINS
        }

    def _profiles(self) -> Sequence[KubeSchedulerProfile]:
        config = replace(self.policy, config=self.base).loaded()
        assert config is not None
        return config.profiles

    def _identity(self) -> str:
        """What the results of finished runs depend on."""
        experiment, policy = self.experiment, self.policy
        planned = experiment.workload(self.seed)
        clusters = [each for each in (experiment.cluster, policy.cluster) if each is not None]
        objects = [obj for each in clusters for obj in (*each.objects, *each.managed)]
        objects += (*planned.objects, *planned.managed)
        parts = (
            kuberth.__version__,
            [encode(each) for each in (*(node for each in clusters for node in each.nodes), *objects)],
            [msgspec.json.encode(each) for each in planned.arrivals],
            [self.base, dict(self.objective.weights), self.seeds, self.seed, sorted(self.search.items())],
            [
                experiment.until,
                experiment.controllers,
                *map(_identity_of, (experiment.interruptions, policy.nodes)),
            ],
            sorted((name, _code_of(factory)) for name, factory in policy.plugins.items()),
            None if policy.queue is None else _code_of(policy.queue),
            sorted(policy.gates.items()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _identity_of(policy: NodePolicy | None) -> object:
    return repr(policy) if policy is None or is_dataclass(policy) else _code_of(policy)


def _code_of(factory: object) -> tuple[str, ...]:
    """The name of a function or class, and a digest of the file that it is in; the same in every process."""
    if isinstance(factory, partial):
        given = (*factory.args, *sorted(factory.keywords.items()))
        return (
            *_code_of(factory.func),
            *(repr(each) for each in given if isinstance(each, str | int | tuple)),
        )
    code: Any = factory if hasattr(factory, "__qualname__") else type(factory)
    name = f"{getattr(code, '__module__', '')}:{getattr(code, '__qualname__', '')}"
    try:
        return name, hashlib.sha256(Path(inspect.getfile(code)).read_bytes()).hexdigest()
    except (OSError, TypeError):  # made in a notebook
        return (name,)


class _FinishedRun(msgspec.Struct, frozen=True):
    parameters: Parameters
    values: list[float]


class _FinishedRuns:
    """Values of configurations, in a file."""

    def __init__(self, file: Path | None, identity: str) -> None:
        self._file = file
        self._values: dict[bytes, list[float]] = {}
        if file is None:
            return
        if not file.exists():
            file.write_text(f"{identity}\n", encoding="utf-8")
            return
        first, *lines = file.read_text(encoding="utf-8").splitlines() or [""]
        if first != identity:
            raise ConfigError(f"{file}: it belongs to another search; give another file or delete it")
        for line in lines:
            try:
                read = msgspec.json.decode(line, type=_FinishedRun)
            except msgspec.DecodeError:
                break  # the last line, where the program was interrupted
            self._values[_key(read.parameters)] = read.values

    def get(self, parameters: Parameters) -> list[float] | None:
        return self._values.get(_key(parameters))

    def add(self, parameters: Parameters, values: list[float]) -> None:
        self._values[_key(parameters)] = values
        if self._file is not None:
            with self._file.open("ab") as stream:
                stream.write(msgspec.json.encode(_FinishedRun(parameters, values)) + b"\n")
                stream.flush()
                os.fsync(stream.fileno())


def _key(parameters: Parameters) -> bytes:
    return msgspec.json.encode(parameters, order="sorted")


@dataclass(eq=False)
class _Search:
    tuning: Tuning
    finished: _FinishedRuns
    processes: int | None
    dask: str
    on_progress: Callable[[TuningProgress], None]

    def __post_init__(self) -> None:
        tuning = self.tuning
        planned = tuning.experiment.workload(tuning.seed)
        self._resources = _requested_resources(planned)
        own = tuning.own_weights()
        self._plugins = [*plugins_to_weigh(tuning.experiment.cluster, planned), *own]
        in_tree = {name: IN_TREE_PLUGINS[name].weight for name in self._plugins if name in IN_TREE_PLUGINS}
        self._weights = {**in_tree, **{name: min(weight, MAX_WEIGHT) for name, weight in own.items()}}
        """The initial weights."""

    def run(self) -> Tuned:
        optuna = _optuna()
        tuning = self.tuning
        sampler = optuna.samplers.TPESampler(
            seed=tuning.seed, n_startup_trials=max(_BATCH, tuning.trials // 4)
        )
        study = optuna.create_study(sampler=sampler)
        for known in self._first_trials():
            study.enqueue_trial(known)
        [base] = self._values([{}])
        tried: dict[bytes, tuple[float, Parameters]] = {}
        done = 0
        while done < tuning.trials:
            batch = [study.ask() for _ in range(min(_BATCH, tuning.trials - done))]
            done += len(batch)
            drawn = [self._propose(trial) for trial in batch]
            for trial, parameters, values in zip(batch, drawn, self._values(drawn), strict=True):
                mean = statistics.fmean(a - b for a, b in zip(values, base, strict=True))
                tried[_key(parameters)] = mean, parameters
                study.tell(trial, mean)
            best = min(mean for mean, _ in tried.values())
            self.on_progress(TuningProgress(done, tuning.trials, min(0.0, rounded(best))))
        # Among configurations with equal means, the first in the order of their parameters, so that the order
        # of trials has no effect.
        distinct: dict[float, Parameters] = {}
        for _, (mean, parameters) in sorted(tried.items()):
            distinct.setdefault(mean, parameters)
        return self._check(sorted(pair for pair in distinct.items() if pair[0] < 0)[:CANDIDATES])

    def _first_trials(self) -> list[Parameters]:
        """The initial configurations: the default weights with each strategy."""
        resources = {f"resource {name}": 1 for name in self._resources}
        return [
            {**self._weights, **resources, "strategy": strategy}
            for strategy in STRATEGIES
            if strategy != RATIO
        ]

    def _propose(self, trial: Any) -> Parameters:
        strategy = trial.suggest_categorical("strategy", STRATEGIES)
        points = [f"shape {percent}" for percent in UTILIZATIONS] if strategy == RATIO else []
        return {
            **{name: trial.suggest_int(name, 0, MAX_WEIGHT) for name in self._plugins},
            "strategy": strategy,
            **{
                f"resource {name}": trial.suggest_int(f"resource {name}", 1, MAX_WEIGHT)
                for name in self._resources
            },
            **{name: trial.suggest_int(name, 0, MAX_CUSTOM_SCORE) for name in points},
            **{
                f"{_ARGUMENT}{name}": _suggest(trial, f"{_ARGUMENT}{name}", bounds)
                for name, bounds in self.tuning.search.items()
            },
        }

    def _values(self, drawn: Sequence[Parameters]) -> list[list[float]]:
        """The objective of each configuration, by seed; {} is the base."""
        tuning = self.tuning
        missing = {_key(each): each for each in drawn if self.finished.get(each) is None}
        if missing:
            policies = [self._policy(str(number), each) for number, each in enumerate(missing.values())]
            seeds = range(tuning.seed, tuning.seed + tuning.seeds)
            outcomes = self._run(tuning.experiment, policies, seeds)
            for policy, each in zip(policies, missing.values(), strict=True):
                self.finished.add(each, [tuning.objective.value(run) for run in outcomes[policy.name]])
        found = [self.finished.get(each) for each in drawn]
        return [values for values in found if values is not None]

    def _run(
        self, experiment: Experiment, policies: Sequence[Policy], seeds: Sequence[int]
    ) -> dict[str, list[Outcome]]:
        makers = replace(experiment, records=False).makers(policies)
        outcomes = run_all(makers, seeds, processes=self.processes, dask=self.dask)
        if any(len(outcomes.get(policy.name, ())) < len(seeds) for policy in policies):
            raise KeyboardInterrupt
        return outcomes

    def _policy(self, name: str, parameters: Parameters) -> Policy:
        config = with_parameters(self.tuning.base, parameters) if parameters else self.tuning.base
        return replace(self.tuning.policy, name=name, config=config)

    def _check(self, chosen: Sequence[tuple[float, Parameters]]) -> Tuned:
        tuning = self.tuning
        names = [f"tuned-{number}" for number in range(1, len(chosen) + 1)]
        policies = [self._policy("base", {})]
        policies += (self._policy(name, each) for name, (_, each) in zip(names, chosen, strict=True))
        first = tuning.seed + _UNSEEN
        seeds = range(first, first + tuning.unseen_seeds)
        outcomes = self._run(tuning.unseen or tuning.experiment, policies, seeds)
        values = {name: [tuning.objective.value(run) for run in runs] for name, runs in outcomes.items()}
        candidates = [
            checked_configuration(
                name, with_parameters(tuning.base, each), mean, values["base"], values[name]
            )
            for name, (mean, each) in zip(names, chosen, strict=True)
        ]
        candidates.sort(key=lambda each: (not each.is_better, each.difference, each.name))
        return Tuned(rounded(statistics.fmean(values["base"])), candidates, compare(outcomes))


def _suggest(trial: Any, name: str, bounds: tuple[float, float]) -> float:
    low, high = bounds
    if isinstance(low, int) and isinstance(high, int):
        return int(trial.suggest_int(name, low, high))
    return rounded(trial.suggest_float(name, low, high))


def checked_configuration(
    name: str, config: Mapping[str, Any], searched: float, base: Sequence[float], values: Sequence[float]
) -> TunedConfiguration:
    """The configuration with its differences to the base on unseen runs, seed by seed."""
    differences = [value - other for value, other in zip(values, base, strict=True)]
    mean, spread, seeds = statistics.fmean(differences), statistics.stdev(differences), len(differences)
    usual, sure = (interval(mean, spread, seeds=seeds, level=level) for level in (0.95, CONFIDENCE))
    assert usual is not None
    assert sure is not None
    least = MIN_GAIN * abs(statistics.fmean(base))
    is_better = sure[1] < 0 and -mean >= least
    return TunedConfiguration(name, dict(config), rounded(searched), rounded(mean), *usual, is_better)


def with_parameters(base: Mapping[str, Any], parameters: Parameters) -> dict[str, Any]:
    """The base configuration with the proposed weights, strategy and arguments, in every profile."""
    profiles = [_profile_with_parameters(each, parameters) for each in base.get("profiles") or [{}]]
    return {**base, "profiles": profiles}


def _profile_with_parameters(profile: Mapping[str, Any], parameters: Parameters) -> dict[str, Any]:
    plugins = dict(profile.get("plugins") or {})
    named = {each["name"] for point in plugins.values() for each in (point or {}).get("enabled") or ()}
    weights = {
        name: weight
        for name, weight in parameters.items()
        if " " not in name and name != "strategy" and (name in WEIGHTED_PLUGINS or name in named)
    }
    if weights:
        score = plugins.get("score") or {}
        enabled, disabled = (
            [each for each in score.get(which) or () if each["name"] not in weights]
            for which in ("enabled", "disabled")
        )
        for name in sorted(
            weights,
            key=lambda name: (
                WEIGHTED_PLUGINS.index(name) if name in WEIGHTED_PLUGINS else len(WEIGHTED_PLUGINS)
            ),
        ):
            disabled.append({"name": name})
            if weights[name]:
                enabled.append({"name": name, "weight": weights[name]})
        plugins["score"] = {"enabled": enabled, "disabled": disabled}
    args = {each["name"]: dict(each.get("args") or {}) for each in profile.get("pluginConfig") or ()}
    if "strategy" in parameters:
        args[_FIT] = {**args.pop(_FIT, {}), "scoringStrategy": _strategy(parameters)}
    for name, value in parameters.items():
        if name.startswith(_ARGUMENT):
            plugin, _, argument = name.removeprefix(_ARGUMENT).partition(".")
            if plugin in IN_TREE_PLUGINS or plugin in named:
                args[plugin] = {**args.get(plugin, {}), argument: value}
    configs = [{"name": name, "args": given} for name, given in args.items()]
    return {**profile, "plugins": plugins, "pluginConfig": configs}


def _strategy(parameters: Parameters) -> dict[str, Any]:
    """The scoring strategy of NodeResourcesFit."""
    resources = [
        {"name": name.removeprefix("resource "), "weight": weight}
        for name, weight in parameters.items()
        if name.startswith("resource ")
    ]
    strategy = {"type": parameters["strategy"], "resources": resources}
    if parameters["strategy"] == RATIO:
        shape = [{"utilization": each, "score": parameters[f"shape {each}"]} for each in UTILIZATIONS]
        strategy["requestedToCapacityRatio"] = {"shape": shape}
    return strategy


def plugins_to_weigh(cluster: ClusterState, planned: PlannedWorkload) -> list[str]:
    """Those of `WEIGHTED_PLUGINS` that score these nodes for these pods; others keep their weights."""
    if planned.managed or cluster.managed:
        return list(WEIGHTED_PLUGINS)
    affinities = [each.affinity or each.spec.get("affinity") or {} for each in planned.arrivals]
    scores = {
        "PodTopologySpread": any(
            each.spread or each.spec.get("topologySpreadConstraints") for each in planned.arrivals
        ),
        "InterPodAffinity": any("podAffinity" in each or "podAntiAffinity" in each for each in affinities),
        "NodeAffinity": any("nodeAffinity" in each for each in affinities),
        "TaintToleration": any(
            taint.effect == "PreferNoSchedule" for node in cluster.nodes for taint in node.spec.taints
        ),
    }
    return [name for name in WEIGHTED_PLUGINS if scores.get(name, True)]


def _requested_resources(planned: PlannedWorkload) -> list[str]:
    """Resources that arrivals request, besides CPU and memory."""
    asked = {name for each in planned.arrivals for name in each.requests}
    return sorted({"cpu", "memory"} | (asked - {"pods", "ephemeral-storage"}))


def split_by_time(planned: PlannedWorkload) -> tuple[PlannedWorkload, PlannedWorkload] | None:
    """The arrivals of the first and the second half of the time; None if either would be empty.

    A gang belongs to the half in which its first member arrives. The second half begins at its first arrival.
    """
    first: dict[tuple[str, str], float] = {}
    for each in planned.arrivals:
        if each.gang:
            key = each.tenant, each.gang
            first[key] = min(first.get(key, each.arrival), each.arrival)
    at = [first.get((each.tenant, each.gang), each.arrival) for each in planned.arrivals]
    if not at or planned.managed:
        return None
    middle = (min(at) + max(at)) / 2
    early = [each for each, time in zip(planned.arrivals, at, strict=True) if time <= middle]
    late = [each for each, time in zip(planned.arrivals, at, strict=True) if time > middle]
    if not early or not late:
        return None
    start = min(each.arrival for each in late)
    shifted = [msgspec.structs.replace(each, arrival=each.arrival - start) for each in late]
    return planned._replace(arrivals=early), planned._replace(arrivals=shifted)


def _optuna() -> Any:
    try:
        optuna: Any = importlib.import_module("optuna")
    except ImportError as error:
        raise ConfigError("tuning needs Optuna: pip install 'kuberth[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
