"""Every in-tree plugin says the same of a node whether it is asked of all nodes, of some, or of that one."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kuberth.api import wire
from kuberth.api.core import Pod
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.evaluation import Evaluator
from kuberth.framework import CycleState, DependsOn, FilterPlugin, Plugin, Runner, ScorePlugin
from kuberth.framework.status import SUCCESS, Status
from kuberth.framework.verdict import Verdict
from tests.conformance.cases import CORPUS, Case, read_cases
from tests.conformance.replay import evaluator_of


@lru_cache(maxsize=1)
def corpus() -> list[Case]:
    """Clusters and pods of every family; a slice, so that reading it costs little."""
    return [case for index, case in enumerate(read_cases(CORPUS / "schedule.jsonl.gz")) if index % 4 == 0]


def judged(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, Status]:
    verdict = plugin.filter_nodes(state, pod, nodes)
    live = nodes.live()
    return {
        nodes.name(position): _status(verdict, position) for position in range(len(nodes)) if live[position]
    }


def _status(verdict: Verdict | None, position: int) -> Status:
    code = 0 if verdict is None else int(verdict.codes[position])
    return SUCCESS if verdict is None or code == 0 else verdict.status(code)


def scored(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, int]:
    scores = plugin.score_nodes(state, pod, nodes)
    names = [nodes.name(position) for position in range(len(nodes))]
    if isinstance(scores, Status):
        assert scores.is_skip
        return dict.fromkeys(names, 0)
    return dict(zip(names, scores.tolist(), strict=True))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_all_rows_some_rows_and_single_rows_agree(data: st.DataObject) -> None:
    case = data.draw(st.integers(0, len(corpus()) - 1).map(lambda index: corpus()[index]))
    evaluator = evaluator_of(case)
    # A gap in the table, as a node that was deleted leaves it.
    gone = data.draw(st.none() | st.sampled_from(case["nodes"]))
    if gone is not None and len(case["nodes"]) > 1:
        evaluator.cluster.remove_node(gone["metadata"]["name"])
    pod = wire.convert(Pod, case["pod"])
    state = CycleState(PodInfo(pod))
    everything = evaluator.cluster.all_nodes()
    runner = evaluator.runner
    if not runner.pre_filtering.run(state, pod, everything).status.is_success:
        return
    live = np.flatnonzero(everything.live())
    some = everything.at(np.array(data.draw(st.lists(st.sampled_from(live.tolist()), unique=True)), np.intp))
    for plugin in runner.profile.filter:
        if plugin.name in state.skip_filter:
            continue
        whole = judged(plugin, state, pod, everything)
        assert judged(plugin, state, pod, some) == {name: whole[name] for name in some.names()}, plugin.name
        for node in everything:
            assert judged(plugin, state, pod, node.alone) == {node.name: whole[node.name]}, plugin.name
            if type(plugin).filter is not FilterPlugin.filter:
                alone = plugin.filter(state, pod, node) or SUCCESS
                assert alone == whole[node.name], f"{plugin.name}: the two forms differ"

    candidates = everything.at(live.astype(np.intp))
    assert runner.scoring.run_pre_score(state, pod, candidates).is_success
    for scorer in runner.profile.score:
        if scorer.name in state.skip_score:
            continue
        all_scores = scored(scorer, state, pod, candidates)
        for node in everything:
            assert scored(scorer, state, pod, node.alone) == {node.name: all_scores[node.name]}, scorer.name
            if type(scorer).score is not ScorePlugin.score:
                one = scorer.score(state, pod, node)
                assert one == all_scores[node.name], f"{scorer.name}: the two forms differ"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_inputs_that_a_plugin_states_are_true(data: st.DataObject) -> None:
    """An answer about a node does not change with what the plugin says it does not depend on."""
    case = data.draw(st.integers(0, len(corpus()) - 1).map(lambda index: corpus()[index]))
    evaluator = evaluator_of(case)
    cluster, runner = evaluator.cluster, evaluator.runner
    pod = wire.convert(Pod, case["pod"])
    state = CycleState(PodInfo(pod))
    everything = cluster.all_nodes()
    if not runner.pre_filtering.run(state, pod, everything).status.is_success:
        return
    assert runner.scoring.run_pre_score(state, pod, everything).is_success
    node = data.draw(st.sampled_from(list(everything)))
    others = [other for other in everything if other.row != node.row]
    guest = PodInfo(pod)
    for scope, changed in (
        (DependsOn.NODE, others[:1]),
        (DependsOn.REQUESTS, others[:1]),
        (DependsOn.NODE_OBJECT, [node, *others[:1]]),
    ):
        filters = [
            plugin
            for plugin in runner.profile.filter
            if stated(runner, plugin, "filter") is scope and plugin.name not in state.skip_filter
        ]
        scorers = [
            plugin
            for plugin in runner.profile.score
            if stated(runner, plugin, "score") is scope and plugin.name not in state.skip_score
        ]
        verdicts = [judged(plugin, state, pod, node.alone) for plugin in filters]
        scores = [scored(plugin, state, pod, node.alone) for plugin in scorers]
        with cluster.what_if() as what_if:
            for row in changed:
                what_if.add_pod(guest, row.row)
            assert [judged(plugin, state, pod, node.alone) for plugin in filters] == verdicts
            assert [scored(plugin, state, pod, node.alone) for plugin in scorers] == scores


def stated(runner: Runner, plugin: Plugin, phase: str) -> DependsOn | None:
    inputs = runner.profile.statements.of(plugin.name)
    return None if inputs is None else getattr(inputs, phase)


def test_which_plugins_judge_a_node_by_itself() -> None:
    runner = Evaluator().runner
    filters = {each.name: stated(runner, each, "filter") for each in runner.profile.filter}
    scorers = {each.name: stated(runner, each, "score") for each in runner.profile.score}
    assert {name: scope for name, scope in filters.items() if scope is not DependsOn.ANYTHING} == {
        "NodeUnschedulable": DependsOn.NODE_OBJECT,
        "NodeName": DependsOn.NODE_OBJECT,
        "TaintToleration": DependsOn.NODE_OBJECT,
        "NodeAffinity": DependsOn.NODE_OBJECT,
        "NodePorts": DependsOn.NODE,
        "NodeResourcesFit": DependsOn.REQUESTS,
        "NodeDeclaredFeatures": DependsOn.NODE_OBJECT,
        "PodTopologySpread": DependsOn.CLUSTER,
        "InterPodAffinity": DependsOn.CLUSTER,
    }
    assert {name: scope for name, scope in scorers.items() if scope is not DependsOn.ANYTHING} == {
        "TaintToleration": DependsOn.NODE_OBJECT,
        "NodeAffinity": DependsOn.NODE_OBJECT,
        "NodeResourcesFit": DependsOn.REQUESTS,
        "NodeResourcesBalancedAllocation": DependsOn.REQUESTS,
    }
