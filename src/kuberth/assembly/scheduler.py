"""The composition root: wires a whole scheduler and owns its tasks.

In: an API, a configuration, and your own plugins and queue. Out: a running scheduler:

    scheduler = Scheduler(api, config=load(Path("config.yaml")), plugins={"MyPlugin": MyPlugin})
    await scheduler.run()
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Final

from kuberth.api.core import Namespace, Node, Pod
from kuberth.api.pods import UNFINISHED
from kuberth.api.scheduling import PodGroup
from kuberth.assembly.components import Components, plugins_by_name
from kuberth.assembly.following import Following
from kuberth.assembly.observing import SchedulerObserver, ShelteredObserver
from kuberth.assembly.profiles import assemble, derive_with, effective_gates, full_registry
from kuberth.binding.cycle import BindingCycle, binding_name
from kuberth.client.adaptive_limit import AdaptiveLimit
from kuberth.client.protocol import Api
from kuberth.clock import NANOSECONDS, Clock, SystemClock
from kuberth.cluster.table import ClusterTable
from kuberth.config import FeatureGates, KubeSchedulerConfiguration, default_configuration
from kuberth.errors import ConfigError, KuberthError
from kuberth.extenders import Extenders, build_extenders
from kuberth.framework.handle import Handle
from kuberth.framework.nominator import Nominator
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.framework.runner import Runner
from kuberth.framework.waiting_pods import WaitingPods
from kuberth.holding import Hold
from kuberth.informers.reflector import Reflector
from kuberth.informers.store import Stores
from kuberth.intake.intake import Intake, event_kinds
from kuberth.observe.metrics import Labels, PodGroupMetrics, SchedulerMetrics
from kuberth.outcomes.event_recorder import ApiEventRecorder
from kuberth.outcomes.failure_handling import FailureHandler
from kuberth.outcomes.group_status import PodGroupStatusWriter
from kuberth.outcomes.status_writer import PATCH, PodStatusWriter
from kuberth.queue.guard import GuardedQueue, name_of
from kuberth.queue.interface import QueueContext, QueueFactory, SchedulingQueue
from kuberth.queue.priority_queue import PriorityQueue
from kuberth.scheduling.checking import CHECK_EVERY
from kuberth.scheduling.cycle import SchedulingCycle
from kuberth.scheduling.extended_cycle import ExtendedCycle
from kuberth.scheduling.groups.cycle import GroupCycle
from kuberth.scheduling.loop import SchedulingLoop

logger = logging.getLogger(__name__)

LAST_PODS_SECONDS: Final = 20 * 60.0
"""How long in-flight pods may keep replaced plugins open: Permit may hold a pod for 15 minutes."""
LAST_REQUESTS_SECONDS: Final = 60.0
"""How long extenders stay open after their removal: cycles that began before may call them."""


class Scheduler:
    """A whole scheduler over one API. Create it, then `await run()`; `stop()` ends it."""

    def __init__(
        self,
        api: Api,
        *,
        config: KubeSchedulerConfiguration | None = None,
        plugins: Mapping[str, PluginFactory] | None = None,
        queue: QueueFactory | None = None,
        feature_gates: FeatureGates | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        max_unschedulable_seconds: float = 300.0,
        check_plans_every: int = CHECK_EVERY,
        events_api: Api | None = None,
        recorder: ApiEventRecorder | None = None,
    ) -> None:
        """`plugins` are added to the in-tree ones (or to `registry`); `queue` replaces the default queue.

        One cycle in `check_plans_every` is evaluated a second time without plans, to check the plugins'
        inputs; 0 turns this off. Events are written through `events_api`, so that they need not share a rate
        limit with bindings, or go to `recorder` instead of the API.
        """
        config = default_configuration(feature_gates) if config is None else config
        self.config = config
        self.feature_gates = effective_gates(config, feature_gates)
        self.metrics = SchedulerMetrics()
        self.stores = Stores()
        self.cluster = ClusterTable()
        self.nominator = Nominator()
        self.waiting_pods = WaitingPods()
        self._hold = Hold()
        self._api = api
        self._clock = SystemClock() if clock is None else clock
        self._tasks: asyncio.TaskGroup | None = None
        self._work: set[asyncio.Task[None]] = set()
        self._stopped = asyncio.Event()
        names = [profile.scheduler_name for profile in config.profiles]
        if recorder is None:
            recorder = ApiEventRecorder(
                api if events_api is None else events_api, self._clock, controllers=names
            )
        else:
            recorder.name_controllers(names)
        self.recorder = recorder
        rng = random.Random() if rng is None else rng
        for kind in (Pod, Node, Namespace):
            self.stores.of(kind)
        if registry is None:
            registry = full_registry(plugins)
        elif plugins:
            registry.merge(Registry(plugins))
        self.extenders = build_extenders(config.extenders, api=api, clock=self._clock)
        self._registry = registry
        self._queue_factory = queue
        self._max_unschedulable_seconds = max_unschedulable_seconds
        self._given_gates = feature_gates
        self._changing = asyncio.Lock()
        self._retiring: list[asyncio.Task[None]] = []
        self._plugins = self._new_components()
        self._handle = Handle(
            api=api,
            stores=self.stores,
            cluster=self.cluster,
            clock=self._clock,
            feature_gates=self.feature_gates,
            waiting_pods=self.waiting_pods,
            nominator=self.nominator,
            activator=self,
            recorder=self.recorder,
            spawn=self._plugins.spawn,
            metrics=self.metrics,
            extenders=self.extenders,
            rng=_plugin_rng(rng),
        )
        # Changed in place at a reload: its holders look up pods' profiles in it.
        self.runners = dict(assemble(config, registry=registry, handle=self._handle, metrics=self.metrics))
        self._plugins.set_components(_plugins_of(self.runners))
        made, self._queue_parts = self._make_queue(config, self.runners, queue)
        self.queue = GuardedQueue(made, self._clock)
        self._wire(rng, check_plans_every)

    def _make_queue(
        self,
        config: KubeSchedulerConfiguration,
        runners: Mapping[str, Runner],
        factory: QueueFactory | None,
    ) -> tuple[SchedulingQueue, Components]:
        components = self._new_components(close_unstarted=True)
        context = QueueContext(
            sort=_shared_queue_sort(runners),
            clock=self._clock,
            cluster=self.cluster,
            nominator=self.nominator,
            metrics=self.metrics,
            stores=self.stores,
            api=self._api,
            recorder=self.recorder,
            spawn=components.spawn,
            pre_enqueue={name: runner.run_pre_enqueue for name, runner in runners.items()},
            hints={name: runner.profile.hints for name, runner in runners.items()},
            initial_backoff_seconds=float(config.pod_initial_backoff_seconds),
            max_backoff_seconds=float(config.pod_max_backoff_seconds),
            max_unschedulable_seconds=self._max_unschedulable_seconds,
            queueing_hints=self.feature_gates.enabled("SchedulerQueueingHints"),
            pop_from_backoff=self.feature_gates.enabled("SchedulerPopFromBackoffQ"),
            pod_groups=self.feature_gates.enabled("GenericWorkload"),
        )
        queue = PriorityQueue(context) if factory is None else factory(context)
        if not isinstance(queue, SchedulingQueue):
            raise ConfigError(
                f"the queue factory {factory!r} returned {queue!r}, which is not a "
                "kuberth.queue.interface.SchedulingQueue"
            )
        components.set_components({f"queue {name_of(queue)}": queue})
        return queue, components

    def _new_components(self, *, close_unstarted: bool = False) -> Components:
        return Components(background=self._task, job=self._job, close_unstarted=close_unstarted)

    def _wire(self, rng: random.Random, check_plans_every: int) -> None:
        bindings = AdaptiveLimit(self._clock, refusals=lambda: self._api.refused_posts)
        status_patches = AdaptiveLimit(self._clock)
        self._show_limits({"binding": bindings, PATCH: status_patches})
        writer = PodStatusWriter(
            self._api, self.spawn, self._clock, metrics=self.metrics, limit=status_patches
        )
        derive = derive_with(self.feature_gates)
        failures = self._failures = FailureHandler(
            queue=self.queue,
            nominator=self.nominator,
            pods=self.stores.of(Pod),
            recorder=self.recorder,
            writer=writer,
            metrics=self.metrics,
            derive=derive,
        )
        self._binding = BindingCycle(
            queue=self.queue,
            cluster=self.cluster,
            waiting_pods=self.waiting_pods,
            failures=failures,
            recorder=self.recorder,
            writer=writer,
            metrics=self.metrics,
            clock=self._clock,
            spawn=self.spawn,
            announce_nomination=self.feature_gates.enabled("NominatedNodeNameForExpectation"),
            limit=bindings,
            hold=self._hold,
        )
        cycle = self._cycle = SchedulingCycle(
            self.cluster,
            nominator=self.nominator,
            metrics=self.metrics,
            percentage_of_nodes_to_score=self.config.percentage_of_nodes_to_score,
            rng=rng,
            check_every=check_plans_every,
        )
        self.loop = SchedulingLoop(
            queue=self.queue,
            cluster=self.cluster,
            runners=self.runners,
            cycle=cycle,
            failures=failures,
            recorder=self.recorder,
            bind=self._binding.start,
            may_bind=self._binding.has_capacity,
            extended=ExtendedCycle(
                cycle,
                cluster=self.cluster,
                nominator=self.nominator,
                stores=self.stores,
                derive=derive,
                metrics=self.metrics,
            ),
            spawn=self.spawn,
            parallelism=self.config.parallelism,
            groups=self._group_cycle(cycle, rng) if self.feature_gates.enabled("GenericWorkload") else None,
        )
        self._binding.when_capacity_returns(self.loop.wake)
        self.intake = Intake(
            cluster=self.cluster,
            queue=self.queue,
            nominator=self.nominator,
            waiting_pods=self.waiting_pods,
            runners=self.runners,
            metrics=self.metrics,
            feature_gates=self.feature_gates,
            derive=derive,
        )
        self.metrics.pending_pods.compute = lambda: {
            (queue,): float(len(pods)) for queue, pods in self.queue.pending_pods().items()
        }
        self.metrics.oldest_untried_pod.compute = self._oldest_untried_pod
        self.metrics.cache_size.compute = lambda: {
            ("nodes",): float(self.cluster.node_count),
            ("pods",): float(self.cluster.placed_count),
            ("assumed_pods",): float(self.cluster.assumed_count),
        }
        self.metrics.plans.compute = lambda: {
            (name,): float(len(runner.plans))
            for name, runner in self.runners.items()
            if runner.plans is not None
        }
        # Nodes first, so that pods find theirs.
        others = self._kinds_wanted(self.runners) - {Node, Namespace, Pod}
        kinds: list[type[Any]] = [Namespace, Node, *sorted(others, key=_kind_name), Pod]
        self._following = Following([*(self._reflector(kind) for kind in kinds), *self.extenders.reflectors])
        self.stores.seal()

    def _oldest_untried_pod(self) -> Mapping[Labels, float]:
        active = self.queue.pending_pods().get("active", ())
        since = [each.timestamp_ns for each in active if not each.attempts]
        return {(): (self._clock.now_ns() - min(since)) / NANOSECONDS if since else 0.0}

    def _show_limits(self, limits: Mapping[str, AdaptiveLimit]) -> None:
        self.metrics.write_limit.compute = lambda: {
            (kind,): float(limit.limit) for kind, limit in limits.items()
        }
        self.metrics.writes_in_flight.compute = lambda: {
            (kind,): float(limit.in_flight) for kind, limit in limits.items()
        }

    def _group_cycle(self, cycle: SchedulingCycle, rng: random.Random) -> GroupCycle:
        groups = self.stores.of(PodGroup)
        self.metrics.groups = PodGroupMetrics()
        return GroupCycle(
            queue=self.queue,
            cluster=self.cluster,
            nominator=self.nominator,
            runners=self.runners,
            cycle=cycle,
            groups=groups,
            writer=PodGroupStatusWriter(self._api, self.spawn, self._clock, groups=groups),
            metrics=self.metrics.groups,
            wait=self._binding.start_waiting,
            hold=self._hold,
            by_topology=self.feature_gates.enabled("TopologyAwareWorkloadScheduling"),
            preempts=self.feature_gates.enabled("WorkloadAwarePreemption"),
            rng=rng,
        )

    def _kinds_wanted(self, runners: Mapping[str, Runner]) -> set[type[Any]]:
        """The kinds that plugins look up, or whose events they registered."""
        return {*self.stores.kinds(), *event_kinds(runners.values())}

    def _reflector(self, kind: type[Any]) -> Reflector[Any]:
        return Reflector(
            self._api,
            kind,
            self.stores.of(kind),
            self.intake.handler(kind),
            field_selector=UNFINISHED if kind is Pod else "",
            optional=kind not in (Pod, Node),
            hold=self._hold,
        )

    @property
    def registry(self) -> Registry:
        """The registry that provides plugins now."""
        return self._registry

    @property
    def max_unschedulable_seconds(self) -> float:
        """After this number of seconds, a rejected pod is retried without an event."""
        return self._max_unschedulable_seconds

    # Reload

    async def reconfigure(
        self,
        config: KubeSchedulerConfiguration,
        *,
        registry: Registry | None = None,
        queue: QueueFactory | None = None,
    ) -> None:
        """Replace profiles, plugins, extenders and the queue's settings between two cycles.

        Pending pods go through PreEnqueue again and are tried with the new rules; in-flight pods finish with
        the old ones. KuberthError: the configuration is rejected, and nothing has changed. Plugins and the
        queue are constructed again, from `registry` and `queue` or as before. They are started before they
        become active; old plugins are closed when the in-flight pods that use them are done, and their
        background tasks are cancelled.
        """
        async with self._changing:
            registry = self._registry if registry is None else registry
            factory = self._queue_factory if queue is None else queue
            self._expect_same_gates(config)
            extenders = self.extenders
            plugins, queue_parts = self._new_components(), None
            new: list[Reflector[Any]] = []
            if config.extenders != self.config.extenders:
                extenders = build_extenders(config.extenders, api=self._api, clock=self._clock)
            try:
                with self.stores.opened():
                    handle = replace(self._handle, extenders=extenders, spawn=plugins.spawn)
                    runners = assemble(config, registry=registry, handle=handle, metrics=self.metrics)
                    plugins.set_components(_plugins_of(runners))
                    new_queue, queue_parts = self._make_queue(config, runners, factory)
                    kinds = self._kinds_wanted(runners) - self._following.kinds()
                    new = [self._reflector(kind) for kind in sorted(kinds, key=_kind_name)]
                    if extenders is not self.extenders:
                        new += extenders.reflectors
                    await self._following.add(new)
                if self._tasks is not None:
                    await self._start(plugins, queue_parts)
                await self._hold.ended()
            except BaseException:
                self._following.drop(new)
                await plugins.close()
                if queue_parts is not None:
                    await queue_parts.close()
                if extenders is not self.extenders:
                    await extenders.close()
                raise
            self._registry, self._queue_factory = registry, factory
            old_queue_parts, self._queue_parts = self._queue_parts, queue_parts
            old_plugins, self._plugins = self._plugins, plugins
            self._swap(config, handle, runners, new_queue)
            _log_warnings(runners)
            await old_queue_parts.close()
            if self._tasks is None:
                await old_plugins.close()
            else:
                self._retiring = [task for task in self._retiring if not task.done()]
                retiring = self._retire_plugins(old_plugins, set(self.queue.uids_in_flight))
                self._retiring.append(self._task(retiring, "replaced plugins"))

    async def _start(self, *components: Components) -> None:
        """Start plugins and a queue; KuberthError if one of them failed."""
        for each in components:
            await each.start(unless=self._stopped)

    async def _retire_plugins(self, plugins: Components, uids: set[str]) -> None:
        """Close replaced plugins when no in-flight pod uses them any more."""
        try:
            async with asyncio.timeout(LAST_PODS_SECONDS):
                while uids := uids & self.queue.uids_in_flight:  # noqa: ASYNC110 - pods come back in many ways
                    await asyncio.sleep(1)
        except TimeoutError:
            logger.warning("replaced plugins are closed while %d pods may still use them", len(uids))
        finally:
            await plugins.close()
        await plugins.finish_jobs()

    def _expect_same_gates(self, config: KubeSchedulerConfiguration) -> None:
        wanted = effective_gates(config, self._given_gates)
        if changed := sorted(name for name in wanted if wanted[name] != self.feature_gates[name]):
            raise ConfigError(
                f"featureGates: {', '.join(changed)} cannot be turned on or off while the scheduler runs; "
                "restart it with this configuration"
            )

    def _swap(
        self,
        config: KubeSchedulerConfiguration,
        handle: Handle,
        runners: Mapping[str, Runner],
        queue: SchedulingQueue,
    ) -> None:
        """Replace configuration, runners and queue, without an await: every cycle sees a consistent state."""
        old_extenders, self.extenders = self.extenders, handle.extenders
        self.config, self._handle = config, handle
        self.runners.clear()
        self.runners.update(runners)
        self.recorder.name_controllers(list(runners))
        self._cycle.nodes.percentage = config.percentage_of_nodes_to_score
        self.loop.allow_overlapping(config.parallelism)
        self.queue.replace(queue)
        self.intake.apply_profiles(self.stores.of(Pod))
        if old_extenders is not self.extenders and self._tasks is not None:
            self._retiring.append(self._task(self._retire(old_extenders), "old extenders"))

    async def _retire(self, extenders: Extenders) -> None:
        """Close extenders of the former configuration when cycles that began with it have called them."""
        try:
            await asyncio.sleep(LAST_REQUESTS_SECONDS)
        finally:
            self._following.drop(extenders.reflectors)
            await extenders.close()

    # Running

    async def run(self, *, begin: Awaitable[object] | None = None, grace_seconds: float = 10.0) -> None:
        """Sync with the API, wait for `begin` (such as leadership), then schedule until `stop()`.

        After `stop()`, no more pods are popped, pods that wait on Permit are rejected, and in-flight bindings
        get `grace_seconds` to end.
        """
        _log_warnings(self.runners)
        failure: KuberthError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                try:
                    async with self._changing:
                        await self._start(self._plugins, self._queue_parts)
                except KuberthError as exc:
                    failure = exc  # raised below, without a group
                else:
                    await self._run_until_stopped(tasks, begin, grace_seconds)
                await self._close_components()
        finally:
            self._tasks = None
            self._binding.give_up()
            await self.extenders.close()
            await self._close_components()
        if failure is not None:
            raise failure

    async def discard(self) -> None:
        """Release the resources of a scheduler that never runs."""
        await self.extenders.close()
        await self._close_components()

    async def _run_until_stopped(
        self, tasks: asyncio.TaskGroup, begin: Awaitable[object] | None, grace_seconds: float
    ) -> None:
        self._following.start(tasks)
        writing = tasks.create_task(self.recorder.run(), name="event writers")
        scheduling = tasks.create_task(self._schedule(begin), name="scheduling")
        await self._stopped.wait()
        self.loop.stop()
        await self._finish_work(grace_seconds)
        self._following.stop()
        for task in (writing, scheduling, *self._retiring):
            task.cancel()

    async def _close_components(self) -> None:
        await self._plugins.close()
        await self._queue_parts.close()

    async def _schedule(self, begin: Awaitable[object] | None) -> None:
        await self.wait_synced()
        if begin is not None:
            await begin
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self.loop.run(), name="scheduling loop")
            loops.create_task(self.loop.run_ticks(), name="queue ticks")

    async def _finish_work(self, grace_seconds: float) -> None:
        for waiting in self.waiting_pods:
            waiting.preempt("", "the scheduler is shutting down")
        try:
            async with asyncio.timeout(grace_seconds):
                while work := [*self._work, *self._binding.under_way]:
                    await asyncio.wait(work)
                await self.recorder.drain()
        except TimeoutError:
            unfinished = [task.get_name() for task in self._work]
            unfinished += (binding_name(placement) for placement in self._binding.under_way.values())
            names = ", ".join(sorted(unfinished)) or "writing events"
            logger.warning("not done within %g s, abandoned: %s", grace_seconds, names)
            for task in self._work:
                task.cancel()
            self._binding.give_up()

    async def wait_synced(self) -> None:
        """Return when every watched kind has been listed."""
        await self._following.wait_synced()

    @property
    def synced(self) -> bool:
        return self._following.synced

    def stop(self) -> None:
        """Stop scheduling; `run` returns when everything has ended."""
        self._stopped.set()

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run `work` in a task of this scheduler; a failure is logged and has no other effect."""
        self._job(work, name)

    def _job(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task that may end by itself before the scheduler does."""
        task = self._task(work, name)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    def _task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        if self._tasks is None:
            work.close()
            raise KuberthError(f"{name!r} cannot be started: the scheduler is not running")
        guarded = _guarded(work, name)
        try:
            task = self._tasks.create_task(guarded, name=name)
        except RuntimeError:
            guarded.close()
            work.close()
            raise KuberthError(f"{name!r} cannot be started: the scheduler is shutting down") from None
        # A task that is cancelled before its first step never awaits the work, which would stay open.
        task.add_done_callback(lambda _: work.close())
        return task

    def observe(self, observer: SchedulerObserver | None) -> None:
        """Set the observer, or None. An observer that raises is dropped."""
        sheltered = None if observer is None else ShelteredObserver(observer, drop=lambda: self.observe(None))
        self.queue.observe(sheltered)
        self._failures.observer = self._binding.observer = sheltered

    def record_scores(self, number: int) -> None:
        """Record the scores of the best nodes for this number of placements, which takes some time."""
        self._cycle.score_tables = number

    def activate(self, pods: Mapping[str, Pod]) -> None:
        """Move these pods (by namespace/name) to activeQ, as a plugin requested."""
        self.queue.activate(pods)


def _plugins_of(runners: Mapping[str, Runner]) -> dict[str, Any]:
    return plugins_by_name((name, runner.profile.plugins) for name, runner in runners.items())


def _log_warnings(runners: Mapping[str, Runner]) -> None:
    for name, runner in runners.items():
        for warning in runner.profile.warnings:
            logger.warning("profile %r: %s", name, warning)


def _kind_name(kind: type[Any]) -> str:
    return kind.__name__


async def _guarded(work: Coroutine[Any, Any, None], name: str) -> None:
    try:
        await work
    except Exception:
        logger.exception("%s failed", name)


def _shared_queue_sort(runners: Mapping[str, Runner]) -> Any:
    """ConfigError unless all profiles sort the queue in the same way."""
    plugins = {runner.profile.queue_sort.name: runner.profile.queue_sort for runner in runners.values()}
    if len(plugins) != 1:
        raise ConfigError(
            f"all profiles must use the same queue sort plugin, but there are: {', '.join(plugins)}"
        )
    return next(iter(plugins.values()))


def _plugin_rng(rng: random.Random) -> random.Random:
    """The random generator of plugins, seeded like the scheduler's, but independent of it."""
    twin = random.Random()
    try:
        twin.setstate(rng.getstate())
    except NotImplementedError:  # the operating system's numbers have no seed
        return twin
    return random.Random(f"plugins {twin.getrandbits(64)}")
