"""Checks a plugin against the framework's contract, on random clusters.

In: a plugin class and its arguments. Out: a finding for every rule: it holds, it does not apply, it is worth
a warning, or it is broken, with the pod and the node that show it.

    def test_my_plugin_keeps_the_contract() -> None:
        assert_keeps_contract(MyPlugin)
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple

from kuberth.api.core import Node, Pod
from kuberth.assembly.profiles import full_registry, load_configuration
from kuberth.cluster.nodes import Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.config import KubeSchedulerConfiguration, load
from kuberth.errors import KuberthError, PluginError, described
from kuberth.evaluation import Answer, Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent, Hint, Resource, concerns
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import (
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
    points_of,
)
from kuberth.framework.object_changes import node_changes
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.framework.status import SUCCESS, Status
from kuberth.queue.interface import QueueFactory
from kuberth.testing.harness import configuration, profile
from kuberth.testing.queue_contract import QUEUE_CONTRACT
from kuberth.testing.random_clusters import RandomCluster, words_of
from kuberth.testing.recording import ReadRecorder
from kuberth.testing.scheduling_trial import POINTS_OF_METHODS, Obstacles, SchedulingTrial
from kuberth.testing.time_limits import RuleTimeoutError, time_limit
from kuberth.text.field_errors import InvalidConfiguration

CLUSTERS: Final = 40
"""The number of random clusters on which a plugin is checked."""
PODS: Final = 6
"""The number of pending pods on each."""
SCHEDULED_CLUSTERS: Final = 8
"""The number of random clusters on which a whole scheduler runs with it."""
NODES_TIMED: Final = 5000
RULE_SECONDS: Final = 30.0
"""The longest that a rule may take. A plugin that answers at once takes a second for the longest."""
TIMED: Final = ("filter", "score")
REFERENCE: Final = "NodeResourcesFit"
"""The in-tree plugin whose time is measured for comparison."""
_MAY_REJECT: Final = (PreEnqueuePlugin, PreFilterPlugin, FilterPlugin, ReservePlugin, PermitPlugin)
_NODE_ADDED: Final = ClusterEvent(Resource.NODE, Action.ADD)
_RUNS: Final = 5
_REACHABLE: Final = frozenset(POINTS_OF_METHODS.values())
"""The extension points that pods reach without pod groups."""
_CHECKED_BY_OTHER_RULES: Final = frozenset({"preFilter", "filter", "preScore", "score"})
"""Extension points whose results are checked by other rules; a plugin may skip them for most pods."""
_PODS_TRIED: Final = 50
"""The number of random pods among which a pod is searched that the plugin does not skip, to measure its time.
"""


class RuleOutcome(StrEnum):
    """The result of a rule."""

    OK = "ok"
    """The plugin keeps the rule."""
    SKIPPED = "skipped"
    """The rule does not apply to this plugin."""
    WARNING = "warning"
    """The plugin keeps the rule, with a warning."""
    FAILED = "failed"
    """The plugin breaks the rule."""


class RuleFinding(NamedTuple):
    """The finding of a rule."""

    rule: str
    """The rule's name."""
    outcome: RuleOutcome
    """The result."""
    message: str
    """What was tried, or what shows that the rule is broken."""


class PluginTiming(NamedTuple):
    """The time of an extension point per node of a large cluster."""

    point: str
    """The extension point."""
    microseconds: float
    """CPU time per node."""
    reference: str
    """The in-tree plugin that was timed in turns with this one."""
    reference_microseconds: float
    """Its CPU time per node."""


class PluginReport(NamedTuple):
    """All findings about a plugin."""

    plugin: str
    """The plugin's name."""
    points: Sequence[str]
    """The extension points that it implements."""
    findings: Sequence[RuleFinding]
    """One finding per rule; only the first one if the plugin cannot be constructed."""
    timings: Sequence[PluginTiming]
    """Times of Filter and Score."""

    @property
    def is_kept(self) -> bool:
        """Whether no rule is broken."""
        return all(each.outcome is not RuleOutcome.FAILED for each in self.findings)


def assert_keeps_contract(
    plugin: type[Plugin],
    *,
    args: Mapping[str, Any] | None = None,
    pods: Sequence[Pod] = (),
    clusters: int = CLUSTERS,
) -> None:
    """AssertionError with every broken rule. `pods` are tested in addition to random ones."""
    report = check_plugin(plugin, args=args, pods=pods, clusters=clusters, timed=False)
    broken = [each for each in report.findings if each.outcome is RuleOutcome.FAILED]
    if broken:
        raise AssertionError("; ".join(f"{each.rule}: {each.message}" for each in broken))


def check_plugin(
    plugin: type[Plugin],
    *,
    args: Mapping[str, Any] | None = None,
    pods: Sequence[Pod] = (),
    clusters: int = CLUSTERS,
    start: int = 1,
    timed: bool = True,
) -> PluginReport:
    """Check every rule; `start` is the first seed of the random clusters."""
    check = _Check(plugin, args, pods, range(start, start + clusters))
    findings = [_run_rule(check.construction, plugin.__module__)]
    timings: Sequence[PluginTiming] = ()
    if findings[0].outcome is not RuleOutcome.FAILED:
        rules = (
            check.arguments,
            check.answers,
            check.scheduling,
            check.objects,
            check.determinism,
            check.forms,
            check.statement,
            check.events,
            check.hints,
        )
        for rule in rules:
            findings.append(_run_rule(rule, plugin.__module__))
            if findings[-1].rule == "answers" and findings[-1].outcome is RuleOutcome.FAILED:
                break  # every other rule would report the same
        if timed and all(each.outcome is not RuleOutcome.FAILED for each in findings):
            try:
                with time_limit(RULE_SECONDS, plugin.__module__):
                    timings, not_timed = check.timings()
                findings += not_timed
            except (KuberthError, RuleTimeoutError) as error:
                findings.append(RuleFinding("time", RuleOutcome.FAILED, str(error)))
    return PluginReport(plugin.name, points_of(plugin), findings, timings)


def check_queue(factory: QueueFactory, name: str) -> PluginReport:
    """Check every rule of the contract of queues."""
    findings = []
    for rule in QUEUE_CONTRACT:
        try:
            rule(factory)
        except AssertionError as broken:
            findings.append(RuleFinding("queue", RuleOutcome.FAILED, str(broken)))
        else:
            findings.append(RuleFinding("queue", RuleOutcome.OK, rule.name))
    return PluginReport(name, (), findings, ())


Result = tuple[RuleOutcome, str]


def _run_rule(rule: Callable[[], Result], module: str) -> RuleFinding:
    try:
        with time_limit(RULE_SECONDS, module):
            return RuleFinding(rule.__name__, *rule())
    # The framework rejects a value, or the plugin raises an exception or takes too long.
    except (RuleTimeoutError, KuberthError) as error:
        return RuleFinding(rule.__name__, RuleOutcome.FAILED, str(error))
    except Exception as error:  # where the plugin is called without the framework
        return RuleFinding(rule.__name__, RuleOutcome.FAILED, described(error))


@dataclass(eq=False)
class _Check:
    plugin: type[Plugin]
    args: Mapping[str, Any] | None
    pods: Sequence[Pod]
    seeds: range

    @cached_property
    def _evaluates_nodes(self) -> bool:
        return issubclass(self.plugin, PreFilterPlugin | FilterPlugin | ScorePlugin)

    # Rules, in the order they are shown

    def construction(self) -> Result:
        try:
            evaluator = self._evaluator(RandomCluster(self.seeds.start))
        except InvalidConfiguration as error:
            problems = "; ".join(str(each) for each in error.errors)
            return RuleOutcome.FAILED, f"its arguments are refused: {problems}"
        except KuberthError as error:
            return RuleOutcome.FAILED, str(error)
        warnings = evaluator.runner.profile.warnings
        if warnings:
            return RuleOutcome.WARNING, "; ".join(warnings)
        return RuleOutcome.OK, f"serves {', '.join(points_of(self.plugin)) or 'no extension point'}"

    def arguments(self) -> Result:
        if self.plugin.args_type is None:
            return RuleOutcome.SKIPPED, "it declares no args_type, so its arguments are not checked"
        try:
            self._configuration({**(self.args or {}), "noSuchArgument": 1})
        except InvalidConfiguration:
            return RuleOutcome.OK, f"decoded as {self.plugin.args_type.__name__}; unknown ones are refused"
        return RuleOutcome.FAILED, "an unknown argument is accepted, so a typing error goes unnoticed"

    def answers(self) -> Result:
        if not self._evaluates_nodes:
            return RuleOutcome.SKIPPED, "it does not filter or score nodes"
        asked = rejected = 0
        for cluster, evaluator in self._clusters():
            for pod in self._pods_of(cluster):
                answer = evaluator.evaluate(pod)
                asked += 1
                rejected += bool(answer.rejections or answer.pre_filter)
        message = f"{asked} pods on {len(self.seeds)} random clusters, {rejected} with rejected nodes"
        if issubclass(self.plugin, _MAY_REJECT) and not rejected and issubclass(self.plugin, FilterPlugin):
            return RuleOutcome.WARNING, (
                f"{message}: no branch that rejects was reached; give it pods of yours (--pods FILE)"
            )
        return RuleOutcome.OK, message

    def scheduling(self) -> Result:
        """Run a whole scheduler with the plugin: it logs every violation at any extension point."""
        trial = self._trial
        if trial.not_started:
            return RuleOutcome.WARNING, f"no scheduler could be started with it: {trial.not_started}"
        if trial.errors:
            return RuleOutcome.FAILED, _first_problem(trial.errors)
        served = points_of(self.plugin)
        message = f"{trial.pods} pods in {trial.clusters} schedulers, {trial.bound} bound"
        missed = [
            point
            for point in served
            if point in _REACHABLE - _CHECKED_BY_OTHER_RULES and not trial.calls[point]
        ]
        if missed:
            return RuleOutcome.WARNING, (
                f"{message}, and none reached {', '.join(missed)}; give it pods of yours (--pods FILE)"
            )
        if untried := [point for point in served if point not in _REACHABLE]:
            message += f"; not tried: {', '.join(untried)} (it takes pod groups)"
        return RuleOutcome.OK, message

    def objects(self) -> Result:
        """Compare pods and nodes before and after a whole scheduler has run."""
        changes = self._trial.changes
        if changes:
            return RuleOutcome.FAILED, f"{_first_problem(changes)}: change a copy (msgspec.structs.replace)"
        return RuleOutcome.OK, "it changes no pod and no node that it is given"

    @cached_property
    def _trial(self) -> SchedulingTrial:
        trial = SchedulingTrial()
        clusters = [RandomCluster(seed, words=self._words) for seed in self.seeds[:SCHEDULED_CLUSTERS]]
        trial.run(
            self._profile(self.args, Obstacles.name),
            self._registry(self.plugin),
            self.plugin,
            [(cluster, [*self._pods_of(cluster)]) for cluster in clusters],
            name=self.plugin.name,
        )
        return trial

    def determinism(self) -> Result:
        if not self._evaluates_nodes:
            return RuleOutcome.SKIPPED, "it does not filter or score nodes"
        for cluster, evaluator in self._clusters():
            twin = self._evaluator(cluster)
            for pod in self._pods_of(cluster):
                first, again, other = evaluator.evaluate(pod), evaluator.evaluate(pod), twin.evaluate(pod)
                for answer, who in ((again, "asked twice"), (other, "another instance")):
                    if answer != first:
                        return RuleOutcome.FAILED, f"{who}: {_difference(pod, first, answer)}"
        return RuleOutcome.OK, "the same questions get the same answers"

    def forms(self) -> Result:
        """Compare both forms, and a view of one node with a view of all."""
        if not issubclass(self.plugin, FilterPlugin | ScorePlugin):
            return RuleOutcome.SKIPPED, "it does not filter or score nodes one by one"
        for cluster, evaluator in self._clusters():
            plugin, nodes = evaluator.runner.profile.plugins[self.plugin.name], evaluator.cluster.all_nodes()
            for pod in self._pods_of(cluster):
                for answers in _all_forms(plugin, evaluator, pod, nodes):
                    (first, expected), *others = answers.items()
                    for form, given in others:
                        for name, answer in expected.items():
                            if given[name] != answer:
                                return RuleOutcome.FAILED, (
                                    f"pod {pod.metadata.name}, node {name}: {first} gives {answer!r}, "
                                    f"{form} gives {given[name]!r}"
                                )
        return RuleOutcome.OK, "one node and all nodes at once get the same answers"

    def statement(self) -> Result:
        evaluator = self._evaluator(RandomCluster(self.seeds.start))
        if evaluator.runner.profile.plugins[self.plugin.name].inputs is None:
            return RuleOutcome.WARNING, (
                "it states no `inputs`, so it is asked about every pod and node again, and equal pods that "
                "fit nowhere are not rejected together"
            )
        recorder = ReadRecorder()
        for cluster, evaluator in self._clusters(recorder.watching(self.plugin)):
            for pod in self._pods_of(cluster):
                evaluator.evaluate(pod)
                for event, old, new in _changes(cluster):
                    evaluator.hints(pod, event, old, new)
        if recorder.outside:
            return RuleOutcome.FAILED, "; ".join(sorted(map(str, recorder.outside)))
        for cluster, kept in self._clusters(with_plans=True):
            fresh = self._evaluator(cluster)
            pods = [*self._pods_of(cluster)]
            for number, pod in enumerate([*pods, *pods, *pods]):
                equal = cluster.equal_pod(pod, f"equal-{number}")
                before, after = kept.evaluate(equal), fresh.evaluate(equal)
                if before != after:
                    return RuleOutcome.FAILED, f"kept for equal pods: {_difference(equal, after, before)}"
                changed = cluster.change(cluster.nodes[number % len(cluster.nodes)])
                cluster.nodes[number % len(cluster.nodes)] = changed
                kept.add(changed)
                fresh.add(changed)
        return RuleOutcome.OK, "it reads what it states, and kept answers stay right"

    def events(self) -> Result:
        if not issubclass(self.plugin, _MAY_REJECT):
            return RuleOutcome.SKIPPED, "it rejects no pods"
        if not issubclass(self.plugin, EnqueueExtensions):
            return RuleOutcome.WARNING, (
                "it registers no events, so every event brings back the pods that it rejected; derive it "
                "from EnqueueExtensions and say which events help"
            )
        evaluator = self._evaluator(RandomCluster(self.seeds.start))
        registered = [
            each
            for each in evaluator.runner.profile.hints
            if each.plugin == self.plugin.name and not each.implied
        ]
        if not registered:
            return RuleOutcome.WARNING, (
                "events_to_register is empty: a pod that it rejects waits until the pod itself changes, or "
                "for up to 5m 30s until the queue tries all pods again"
            )
        return RuleOutcome.OK, "; ".join(dict.fromkeys(each.event.description for each in registered))

    def hints(self) -> Result:
        """Check that a change of a node that lets the plugin's pod pass requeues the pod."""
        if not issubclass(self.plugin, FilterPlugin | PreFilterPlugin) or not issubclass(
            self.plugin, EnqueueExtensions
        ):
            return RuleOutcome.SKIPPED, "it has none about nodes that let pods pass"
        helped = 0
        for cluster, evaluator in self._clusters():
            for pod in self._pods_of(cluster):
                for event, old, new in _changes(cluster):
                    if evaluator.evaluate(pod, score=False).feasible:
                        break
                    evaluator.add(new)
                    fits_now = bool(evaluator.evaluate(pod, score=False).feasible)
                    self._ask_hints(evaluator, pod, event, old, new)
                    hint = evaluator.hints(pod, event, old, new).get(self.plugin.name)
                    if old is None:
                        evaluator.remove(new)
                    else:
                        evaluator.add(old)
                    if fits_now:
                        helped += 1
                        if hint is not Hint.QUEUE and not self._is_queued_by_another(
                            evaluator, pod, old, new
                        ):
                            said = "it is not registered for it" if hint is None else "its hint says Skip"
                            return RuleOutcome.FAILED, (
                                f"pod {pod.metadata.name} fits after {event.label} of node "
                                f"{new.metadata.name}, but {said}: the pod would go on waiting"
                            )
        if not helped:
            return RuleOutcome.SKIPPED, (
                "none tried: no random change of a node let a rejected pod pass; give it pods of yours "
                "(--pods FILE)"
            )
        return RuleOutcome.OK, f"{helped} changes of nodes that helped a pod bring it back"

    def _ask_hints(
        self, evaluator: Evaluator, pod: Pod, event: ClusterEvent, old: Node | None, new: Node
    ) -> None:
        """PluginError if its hint raises or returns an invalid value, which the queue treats as Queue."""
        name, about = self.plugin.name, f"its hint for {event.label} of node {new.metadata.name}"
        for registered in evaluator.runner.profile.hints:
            if registered.plugin == name and registered.hint and concerns(registered.event, event):
                try:
                    hint = registered.hint(pod, old, new)
                except Exception as error:
                    raise PluginError(name, about, described(error)) from error
                if not isinstance(hint, Hint):
                    raise PluginError(name, about, f"returned {hint!r:.200} where a Hint is expected")

    def _is_queued_by_another(self, evaluator: Evaluator, pod: Pod, old: Node | None, new: Node) -> bool:
        """Whether another event of the same change of the node requeues the pod."""
        return old is not None and any(
            evaluator.hints(pod, event, old, new).get(self.plugin.name) is Hint.QUEUE
            for event in node_changes(old, new)
        )

    # How long it takes

    def timings(self) -> tuple[Sequence[PluginTiming], Sequence[RuleFinding]]:
        """Measure the plugin on a large cluster, in turns with an in-tree one.

        It uses pods that the plugin does not skip; a finding reports if there is none.
        """
        points = [point for point in points_of(self.plugin) if point in TIMED]
        if not points:
            return (), ()
        cluster = RandomCluster(self.seeds.start, words=self._words, nodes=NODES_TIMED)
        own = self._evaluator(cluster)
        reference = Evaluator(
            [*cluster.nodes, *cluster.placed],
            config=load(configuration(profile(REFERENCE))),
            with_plans=False,
        )
        found, skipped = [], []
        pods = [*self.pods, *(cluster.pod(f"pod-{number}") for number in range(_PODS_TRIED))]
        for point in points:
            pod = next((each for each in pods if _prepared(own, self.plugin.name, point, each)), None)
            if pod is None:
                message = f"{point} is not measured: it skips every pod; give it pods of yours (--pods FILE)"
                skipped.append(RuleFinding("time", RuleOutcome.SKIPPED, message))
                continue
            timed = ((own, self.plugin.name), (reference, REFERENCE))
            turns = [[_microseconds(*each, point, pod) for each in timed] for _ in range(_RUNS)]
            mine, others = (statistics.median(each) for each in zip(*turns, strict=True))
            found.append(PluginTiming(point, mine, REFERENCE, others))
        return found, skipped

    # Clusters to ask about

    @cached_property
    def _words(self) -> Sequence[str]:
        return words_of(self.plugin, self.args)

    def _clusters(
        self, factory: PluginFactory | None = None, *, with_plans: bool = False
    ) -> Iterator[tuple[RandomCluster, Evaluator]]:
        for seed in self.seeds:
            cluster = RandomCluster(seed, words=self._words)
            yield cluster, self._evaluator(cluster, factory, with_plans=with_plans)

    def _pods_of(self, cluster: RandomCluster) -> Iterator[Pod]:
        yield from self.pods
        for number in range(PODS):
            yield cluster.pod(f"pod-{number}")

    def _evaluator(
        self, cluster: RandomCluster, factory: PluginFactory | None = None, *, with_plans: bool = False
    ) -> Evaluator:
        return Evaluator(
            [*cluster.nodes, *cluster.placed],
            config=self._config,
            registry=self._registry(factory or self.plugin),
            with_plans=with_plans,
        )

    @cached_property
    def _config(self) -> KubeSchedulerConfiguration:
        return self._configuration(self.args)

    def _registry(self, factory: PluginFactory) -> Registry:
        """All plugins, with the checked one replacing an in-tree one of the same name."""
        return self._known.replacing(self.plugin.name, factory)

    @cached_property
    def _known(self) -> Registry:
        return full_registry()

    def _configuration(self, args: Mapping[str, Any] | None) -> KubeSchedulerConfiguration:
        return load_configuration(configuration(self._profile(args)), self._registry(self.plugin))

    def _profile(self, args: Mapping[str, Any] | None, *others: str) -> dict[str, Any]:
        """A profile of the plugin and `others`."""
        name = self.plugin.name
        sorts = issubclass(self.plugin, QueueSortPlugin)
        tree = profile(*others, sort=name) if sorts else profile(name, *others)
        if args is not None:
            tree["pluginConfig"] = [{"name": name, "args": dict(args)}]
        return tree


def _first_problem(problems: Collection[str]) -> str:
    """The first problem, with the number of problems."""
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{next(iter(problems))}{more}"


def _changes(cluster: RandomCluster) -> Iterator[tuple[ClusterEvent, Node | None, Node]]:
    """A new node, and changes of the existing nodes."""
    yield _NODE_ADDED, None, cluster.node("node-new")
    for old in cluster.nodes[:3]:
        new = cluster.change(old)
        for event in node_changes(old, new):
            yield event, old, new


def _difference(pod: Pod, first: Answer, second: Answer) -> str:
    where = f"pod {pod.metadata.name}"
    for name in sorted({*first.rejections, *second.rejections}):
        given = first.rejections.get(name, SUCCESS), second.rejections.get(name, SUCCESS)
        if given[0] != given[1]:
            return f"{where}, node {name}: {given[0]!r}, then {given[1]!r}"
    for plugin in sorted({*first.scores, *second.scores}):
        before, after = first.scores.get(plugin, {}), second.scores.get(plugin, {})
        for name in sorted({*before, *after}):
            if before.get(name, 0) != after.get(name, 0):
                return f"{where}, node {name}: score {before.get(name, 0)}, then {after.get(name, 0)}"
    one, two = (each.pre_filter or each.message or "all nodes pass" for each in (first, second))
    return f"{where}: {one}, then {two}"


def _all_forms(
    plugin: Plugin, evaluator: Evaluator, pod: Pod, nodes: Nodes
) -> Iterator[dict[str, dict[str, object]]]:
    """For Filter and for Score: the result for every node, by form."""
    single = [(row.name, row) for row in nodes]
    if isinstance(plugin, FilterPlugin) and (state := _prepared(evaluator, plugin.name, "filter", pod)):
        forms: dict[str, dict[str, object]] = {}
        if type(plugin).filter_nodes is not FilterPlugin.filter_nodes:
            forms["filter_nodes"] = _verdicts(plugin, state, pod, nodes)
            forms["filter_nodes of one node"] = {
                name: _verdicts(plugin, state, pod, row.alone)[name] for name, row in single
            }
        if type(plugin).filter is not FilterPlugin.filter:
            forms["filter"] = {name: _named(plugin.filter(state, pod, row), plugin) for name, row in single}
        yield forms
    if isinstance(plugin, ScorePlugin) and (state := _prepared(evaluator, plugin.name, "score", pod)):
        forms = {}
        if type(plugin).score_nodes is not ScorePlugin.score_nodes:
            forms["score_nodes"] = _scores(plugin, state, pod, nodes)
            forms["score_nodes of one node"] = {
                name: _scores(plugin, state, pod, row.alone)[name] for name, row in single
            }
        if type(plugin).score is not ScorePlugin.score:
            forms["score"] = {name: plugin.score(state, pod, row) for name, row in single}
        yield forms


def _verdicts(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, object]:
    verdict = plugin.filter_nodes(state, pod, nodes)
    if verdict is None:
        return dict.fromkeys(nodes.names(), SUCCESS)
    return {
        name: SUCCESS if not code else _named(verdict.status(code), plugin)
        for name, code in zip(nodes.names(), verdict.codes.tolist(), strict=True)
    }


def _named(status: Status | None, plugin: Plugin) -> Status:
    return SUCCESS if status is None or status.is_success else status.by(plugin.name)


def _scores(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> dict[str, object]:
    scores = plugin.score_nodes(state, pod, nodes)
    if isinstance(scores, Status):
        return dict.fromkeys(nodes.names(), 0 if scores.is_skip else scores)
    return dict(zip(nodes.names(), scores.tolist(), strict=True))


def _prepared(evaluator: Evaluator, plugin: str, point: str, pod: Pod) -> CycleState | None:
    """The state in which Filter or Score begins; None if the plugin is called for no node."""
    nodes, state = evaluator.cluster.all_nodes(), CycleState(PodInfo(pod))
    runner = evaluator.runner
    if not runner.pre_filtering.run(state, pod, nodes).status.is_success:
        return None
    if point == "score" and not runner.scoring.run_pre_score(state, pod, nodes).is_success:
        return None
    return None if plugin in (state.skip_filter if point == "filter" else state.skip_score) else state


def _microseconds(evaluator: Evaluator, plugin: str, point: str, pod: Pod) -> float:
    """CPU time of one extension point for a node, as the framework calls it."""
    runner, nodes = evaluator.runner, evaluator.cluster.all_nodes()
    state = _prepared(evaluator, plugin, point, pod) or CycleState(PodInfo(pod))
    started = time.thread_time()
    if point == "score":
        runner.scoring.run(state, pod, nodes)
    else:
        runner.filtering.evaluate(state, pod, nodes)
    return (time.thread_time() - started) / len(nodes) * 1e6
