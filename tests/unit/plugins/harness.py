"""A profile of one plugin, so that a test sees that plugin's answers and no other's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import FeatureGates, load
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import (
    FilterPlugin,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from kuberth.framework.status import SKIP, Status
from kuberth.framework.verdict import Verdict
from kuberth.testing import make_pod


def evaluator(
    plugin: str,
    *objects: Any,
    args: Mapping[str, Any] | None = None,
    gates: Mapping[str, bool] | None = None,
    disabled_at: tuple[str, ...] = (),
) -> Evaluator:
    """The plugin at all its extension points (but `disabled_at`) over these objects."""
    enabled = [{"name": name} for name in ("PrioritySort", plugin, "DefaultBinder")]
    plugins: dict[str, Any] = {"multiPoint": {"enabled": enabled, "disabled": [{"name": "*"}]}}
    plugins.update({point: {"disabled": [{"name": plugin}]} for point in disabled_at})
    profile: dict[str, Any] = {"schedulerName": "default-scheduler", "plugins": plugins}
    if args is not None:
        profile["pluginConfig"] = [{"name": plugin, "args": dict(args)}]
    config = load(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        },
        feature_gates=gates,
    )
    return Evaluator(objects, config=config, feature_gates=FeatureGates(gates))


def hint(judge: Evaluator, pod: Pod, event: tuple[str, Action], old: object, new: object) -> Hint | None:
    """The only plugin's answer; None if it did not register for the event."""
    return next(iter(judge.hints(pod, ClusterEvent(*event), old, new).values()), None)


def assert_views_agree(judge: Evaluator, plugin_name: str, pod: Pod) -> None:
    """Filter and Score, if not skipped, say the same of a node in a view of all rows, of some and of one.

    So do the forms for one node, of plugins that have both.
    """
    plugin = judge.runner.profile.plugins[plugin_name]
    everything = judge.cluster.all_nodes()
    state = _prepared(plugin, pod, everything)
    some = np.arange(len(everything))[::-2].copy()
    if isinstance(plugin, FilterPlugin) and plugin_name not in state.skip_filter:
        whole = _statuses(plugin, state, pod, everything)
        assert _statuses(plugin, state, pod, everything.at(some)) == [whole[i] for i in some]
        for position, status in enumerate(whole):
            node = everything.node(position)
            assert _statuses(plugin, state, pod, node.alone) == [status]
            if type(plugin).filter is not FilterPlugin.filter:
                assert plugin.filter(state, pod, node) == status
    if isinstance(plugin, ScorePlugin) and plugin_name not in state.skip_score:
        scores = _scores(plugin, state, pod, everything)
        assert _scores(plugin, state, pod, everything.at(some)) == [scores[i] for i in some]
        for position, score in enumerate(scores):
            node = everything.node(position)
            assert _scores(plugin, state, pod, node.alone) == [score]
            if type(plugin).score is not ScorePlugin.score:
                assert plugin.score(state, pod, node) == score


def _prepared(plugin: Plugin, pod: Pod, nodes: Nodes) -> CycleState:
    state = CycleState(PodInfo(pod))
    state.candidates = nodes
    skipped = frozenset((plugin.name,))
    if isinstance(plugin, PreFilterPlugin) and plugin.pre_filter(state, pod, nodes) == SKIP:
        state.skip_filter = skipped
    if isinstance(plugin, PreScorePlugin) and plugin.pre_score(state, pod, nodes) == SKIP:
        state.skip_score = skipped
    return state


def _statuses(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> list[Status | None]:
    verdict = plugin.filter_nodes(state, pod, nodes)
    if verdict is None:
        return [None] * len(nodes)
    assert isinstance(verdict, Verdict)
    return [verdict.status(code) if code else None for code in verdict.codes.tolist()]


def _scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> list[int]:
    scores = plugin.score_nodes(state, pod, nodes)
    assert isinstance(scores, np.ndarray)
    return [int(score) for score in scores]


def member(name: str, group: str = "g", **more: Any) -> Pod:
    """A pod of a pod group that requests one CPU."""
    return make_pod(name, uid=name, cpu="1", schedulingGroup={"podGroupName": group}, **more)
