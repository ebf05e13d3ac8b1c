"""Simulates days of a cluster in seconds: the real scheduler on a virtual clock.

In: a cluster (`clusters`), arriving pods (`traces`, `generating`, `published`, `recording`) and policies: a
scheduler configuration, plugins, a queue, an autoscaler. Out: an `Outcome` (`outcomes`) with waiting times,
utilisation, attempts, and the story of every pod. `running` is one run; an `Experiment` makes one or many
(`sweeping`, `comparing`, `fitting`), `tuning` searches a better configuration; `reporting` formats them. The
names below are public: docs/research.md.

    cluster = nodes_of(20)
    experiment = Experiment(cluster, GeneratedWorkload("services", pods=500, days=0.5))
    print(experiment.run().waits_table().to_csv())
"""

from kuberth.simulation.arrivals import Arrival
from kuberth.simulation.clusters import ClusterState, nodes_of, read_cluster
from kuberth.simulation.comparing import Comparison, Figure, compare, interval
from kuberth.simulation.experiments import Experiment, FixedWorkload, GeneratedWorkload, Policy, Workload
from kuberth.simulation.generating import DrawnClass, Mix
from kuberth.simulation.node_policies import (
    AddNode,
    Autoscaler,
    ClusterNow,
    NodePolicy,
    NodeState,
    RemoveNode,
    SpotInterruptions,
)
from kuberth.simulation.outcomes import (
    Attempts,
    NodeRecord,
    Outcome,
    PodCounts,
    PodRecord,
    Reason,
    Records,
    Sample,
    StoryLine,
    Waits,
)
from kuberth.simulation.reporting import as_csv, as_html, as_json, write_plots
from kuberth.simulation.running import Scenario, simulate
from kuberth.simulation.stepping import (
    AgentStep,
    Choose,
    Environment,
    Observation,
    choosing_policy,
    gymnasium_environment,
)
from kuberth.simulation.tables import Table
from kuberth.simulation.tuning import Objective, Tuned, TunedConfiguration, Tuning, TuningProgress
from kuberth.simulation.workloads import PlannedWorkload, read_workload

__all__ = [
    "AddNode",
    "AgentStep",
    "Arrival",
    "Attempts",
    "Autoscaler",
    "Choose",
    "ClusterNow",
    "ClusterState",
    "Comparison",
    "DrawnClass",
    "Environment",
    "Experiment",
    "Figure",
    "FixedWorkload",
    "GeneratedWorkload",
    "Mix",
    "NodePolicy",
    "NodeRecord",
    "NodeState",
    "Objective",
    "Observation",
    "Outcome",
    "PlannedWorkload",
    "PodCounts",
    "PodRecord",
    "Policy",
    "Reason",
    "Records",
    "RemoveNode",
    "Sample",
    "Scenario",
    "SpotInterruptions",
    "StoryLine",
    "Table",
    "Tuned",
    "TunedConfiguration",
    "Tuning",
    "TuningProgress",
    "Waits",
    "Workload",
    "as_csv",
    "as_html",
    "as_json",
    "choosing_policy",
    "compare",
    "gymnasium_environment",
    "interval",
    "nodes_of",
    "read_cluster",
    "read_workload",
    "simulate",
    "write_plots",
]
