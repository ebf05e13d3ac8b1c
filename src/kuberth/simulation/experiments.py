"""Experiments: a cluster and a workload, on which policies are run and compared.

In: a cluster, a workload and policies, as Python objects. Out: an `Outcome` of one run, or a `Comparison`
over seeds. `kuberth simulate` creates an experiment from its flags and runs it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from kuberth.assembly.profiles import full_registry, load_configuration
from kuberth.config import KubeSchedulerConfiguration
from kuberth.config.types import API_VERSION, KIND
from kuberth.errors import ConfigError
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.queue.interface import QueueFactory
from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.clusters import ClusterState
from kuberth.simulation.comparing import Comparison, compare
from kuberth.simulation.generating import Mix, generate, mix_named
from kuberth.simulation.node_policies import NodePolicy
from kuberth.simulation.outcomes import Outcome
from kuberth.simulation.running import Report, Scenario, no_report, simulate
from kuberth.simulation.sweeping import ScenarioMaker, run_all
from kuberth.simulation.workloads import PlannedWorkload


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to schedule. Policies that run in other processes must be picklable."""

    name: str = "default"
    config: KubeSchedulerConfiguration | Mapping[str, Any] | Path | str | None = None
    """A KubeSchedulerConfiguration, its tree as in YAML, or its file; None: the default configuration."""
    plugins: Mapping[str, PluginFactory] = field(default_factory=dict)
    """Plugins of your own, by name; the configuration enables them."""
    queue: QueueFactory | None = None
    """Creates the scheduling queue; None: the priority queue."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """The feature gates that are set, by name; the others have their defaults."""
    nodes: NodePolicy | None = None
    """Adds and removes nodes, such as an `Autoscaler`."""
    cluster: ClusterState | None = None
    """A cluster that replaces that of the experiment."""

    def __post_init__(self) -> None:
        if self.queue is not None and not callable(self.queue):
            raise ConfigError(f"policy {self.name}: its queue is not a class or function: {self.queue!r}")

    def registry(self) -> Registry:
        """All plugins that the configuration may enable."""
        return full_registry(self.plugins)

    def loaded(self) -> KubeSchedulerConfiguration | None:
        """The configuration, loaded and validated; None: the default configuration."""
        if self.config is None or isinstance(self.config, KubeSchedulerConfiguration):
            return self.config
        registry, source = self.registry(), self.config
        if isinstance(source, Mapping):
            source = {"apiVersion": API_VERSION, "kind": KIND, **source}
        elif isinstance(source, str):
            source = Path(source)
        return load_configuration(source, registry, feature_gates=self.gates)


Workload = Callable[[int], PlannedWorkload]
"""The arrivals in a run with a seed."""


class FixedWorkload:
    """The same arrivals for every seed: a trace, a recording, or your own list."""

    def __init__(self, arrivals: Sequence[Arrival] | PlannedWorkload) -> None:
        self._coming = arrivals if isinstance(arrivals, PlannedWorkload) else PlannedWorkload(arrivals)

    def __call__(self, seed: int) -> PlannedWorkload:
        return self._coming


class GeneratedWorkload:
    """Arrivals generated from the seed."""

    def __init__(self, mix: str | Mix, *, pods: int = 1000, days: float = 1.0) -> None:
        """`mix` is `services`, `gpu`, `alibaba-gpu` or your own `Mix`."""
        self._mix = mix_named(mix) if isinstance(mix, str) else mix
        self._pods = pods
        self._days = days
        self._last: tuple[int, PlannedWorkload] | None = None

    def __call__(self, seed: int) -> PlannedWorkload:
        if self._last is None or self._last[0] != seed:
            arrivals = generate(self._mix, pods=self._pods, seconds=self._days * 86_400, seed=seed)
            self._last = seed, PlannedWorkload(arrivals)
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None}


@dataclass(frozen=True, slots=True)
class Experiment:
    """A cluster and a workload."""

    cluster: ClusterState
    workload: Workload
    until: float | None = None
    """When runs stop, in virtual seconds; None: when nothing can change any more."""
    controllers: bool = False
    """Run controllers even if no manifest needs them."""
    interruptions: NodePolicy | None = None
    """Removes nodes under every policy, such as `SpotInterruptions`."""
    records: bool = True
    """Keep a record of every pod and node in the outcomes."""

    def __post_init__(self) -> None:
        if not callable(self.workload):
            raise ConfigError(
                "a workload is FixedWorkload(arrivals), GeneratedWorkload(mix) or a function of the seed, "
                f"not a {type(self.workload).__name__}"
            )

    def scenario(self, policy: Policy | None = None, *, seed: int = 0) -> Scenario:
        """The scenario for a policy and a seed."""
        policy = policy or Policy()
        return _scenario(self, policy, policy.loaded(), seed)

    def run(
        self,
        policy: Policy | None = None,
        *,
        seed: int = 0,
        report: Report = no_report,
        interruptible: bool = False,
    ) -> Outcome:
        """Run a policy once; `report` and `interruptible` are those of `simulate`."""
        scenario = self.scenario(policy, seed=seed)
        return simulate(scenario, seed=seed, report=report, interruptible=interruptible)

    def makers(self, policies: Sequence[Policy]) -> dict[str, ScenarioMaker]:
        """The scenarios of each policy, by its name; all configurations are loaded and validated."""
        names = [policy.name for policy in policies]
        if not names or len(set(names)) < len(names):
            raise ConfigError(f"policies need distinct names, got: {', '.join(names) or 'none'}")
        return {policy.name: partial(_scenario, self, policy, policy.loaded()) for policy in policies}

    def compare(
        self,
        policies: Sequence[Policy],
        *,
        seeds: int | Sequence[int] = 1,
        processes: int | None = 1,
        dask: str = "",
        records: bool = False,
        on_finished: Callable[[int], None] = lambda _done: None,
    ) -> Comparison:
        """Run every policy with every seed and compare with the first policy.

        `seeds` is a number of seeds from 0 on, or the seeds. `processes` None: one per core. `dask` is the
        address of a Dask scheduler to run on instead. `records`: outcomes contain records of pods and nodes.
        """
        chosen = range(seeds) if isinstance(seeds, int) else seeds
        if not chosen:
            raise ConfigError("a comparison needs at least one seed")
        makers = replace(self, records=records).makers(policies)
        return compare(run_all(makers, chosen, processes=processes, dask=dask, on_finished=on_finished))


def _scenario(
    experiment: Experiment, policy: Policy, config: KubeSchedulerConfiguration | None, seed: int
) -> Scenario:
    cluster = policy.cluster or experiment.cluster
    planned = experiment.workload(seed)
    node_policies = [each for each in (policy.nodes, experiment.interruptions) if each is not None]
    return Scenario(
        nodes=cluster.nodes,
        arrivals=planned.arrivals,
        objects=(*cluster.objects, *planned.objects),
        name=policy.name,
        config=config,
        gates=policy.gates,
        registry=policy.registry,
        queue=policy.queue,
        until=experiment.until,
        managed=(*cluster.managed, *planned.managed),
        controllers=experiment.controllers,
        node_policies=node_policies,
        records=experiment.records,
    )
