"""Runs a plugin in a whole scheduler over random clusters, on virtual time.

In: the factory of a plugin, its profile and random clusters. Out: the errors that the scheduler logged, the
objects that the plugin modified, and how often each of its methods was called.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.api.wire import encode, to_builtins
from kuberth.clock import run_in_virtual_time
from kuberth.cluster.nodes import NodeRow
from kuberth.errors import NotFoundError, described, first_error
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.extension_points import FilterPlugin, Plugin, PreBindPlugin
from kuberth.framework.handle import Handle
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.registry import PluginFactory, Registry
from kuberth.framework.status import Status
from kuberth.informers.store import object_key
from kuberth.testing.factories import make_namespace
from kuberth.testing.harness import World, running
from kuberth.testing.random_clusters import RandomCluster
from kuberth.testing.recording import like_factory, replace_methods

POINTS_OF_METHODS: Final[Mapping[str, str]] = {
    "pre_enqueue": "preEnqueue",
    "less": "queueSort",
    "sort_key": "queueSort",
    "pre_filter": "preFilter",
    "filter": "filter",
    "filter_nodes": "filter",
    "post_filter": "postFilter",
    "pre_score": "preScore",
    "score": "score",
    "score_nodes": "score",
    "normalize_scores": "score",
    "reserve": "reserve",
    "unreserve": "reserve",
    "permit": "permit",
    "pre_bind_pre_flight": "preBind",
    "pre_bind": "preBind",
    "bind": "bind",
    "post_bind": "postBind",
}
"""The watched methods, with their extension points."""
_SETTLING_SECONDS: Final = 15.0
"""Virtual time after each change: longer than the longest backoff."""
_LOGGERS: Final = ("kuberth.framework", "kuberth.queue", "kuberth.assembly", "kuberth.scheduling.checking")
"""Where the failures of plugins are logged."""


class SchedulingTrial:
    """What was observed while a plugin was scheduling."""

    def __init__(self) -> None:
        self.errors: dict[str, None] = {}
        """Errors that the scheduler logged, in order."""
        self.changes: dict[str, None] = {}
        """The methods that modified an object, each with the object and the field."""
        self.not_started = ""
        """Why the scheduler did not start: the plugin's `start` failed."""
        self.calls: Counter[str] = Counter()
        """The number of calls of the plugin by extension point."""
        self.clusters = self.pods = self.bound = 0

    def run(
        self,
        profile: Mapping[str, Any],
        registry: Registry,
        plugin: PluginFactory,
        clusters: Iterable[tuple[RandomCluster, Sequence[Pod]]],
        *,
        name: str,
    ) -> None:
        """Schedule the pods of every cluster; `plugin` is watched, and registered as `name`."""

        def make(args: Any, handle: Handle) -> Plugin:
            made = plugin(args, handle)
            replace_methods(made, POINTS_OF_METHODS, self._watched)
            return made

        own = registry.replacing(name, like_factory(make, plugin))
        own.register(Obstacles.name, Obstacles, origin="code")
        for cluster, pods in clusters:
            with self._listening():
                _in_virtual_time(partial(self._schedule, cluster, pods, profile, own))
            if self.not_started:
                return

    async def _schedule(
        self, cluster: RandomCluster, pods: Sequence[Pod], profile: Mapping[str, Any], registry: Registry
    ) -> None:
        everything = [*cluster.placed, *pods]
        namespaces = sorted({each.metadata.namespace for each in everything} - {"default"})
        objects = [*map(make_namespace, namespaces), *cluster.nodes, *cluster.placed]
        started = False
        try:
            async with running(*objects, profiles=[profile], registry=registry) as world:
                started = True
                await self._change_cluster(world, cluster, pods)
        except Exception as error:
            problem = described(first_error(error))
            if started:
                self.errors[f"the scheduler ended: {problem}"] = None
            else:
                self.not_started = problem

    async def _change_cluster(self, world: World, cluster: RandomCluster, pods: Sequence[Pod]) -> None:
        for pod in pods:
            world.api.put(pod)
        await world.quiet(seconds=_SETTLING_SECONDS)
        for old in cluster.nodes[:3]:
            world.api.replace(cluster.change(old))
        await world.quiet(seconds=_SETTLING_SECONDS)
        world.api.put(cluster.node("node-new"))
        for placed in cluster.placed[:3]:
            with suppress(NotFoundError):  # the plugin may have evicted it
                world.api.remove(Pod, f"{placed.metadata.namespace}/{placed.metadata.name}")
        await world.quiet(seconds=_SETTLING_SECONDS)
        left = {object_key(each) for each in world.api.all(Pod) if each.spec.node_name}
        self.clusters += 1
        self.pods += len(pods)
        self.bound += sum(object_key(each) in left for each in pods)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Errors of the scheduler are findings here, and nowhere else."""
        logger, handler = logging.getLogger("kuberth"), _Errors(self.errors)
        root, silence = logging.getLogger(), logging.NullHandler()  # what plugins log stays out of the output
        propagates, logger.propagate = logger.propagate, False
        logger.addHandler(handler)
        root.addHandler(silence)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            root.removeHandler(silence)
            logger.propagate = propagates

    # Watching the plugin

    def _watched(self, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def watching(given: Sequence[object]) -> Iterator[None]:
            self.calls[POINTS_OF_METHODS.get(method, "")] += 1
            before = [(obj, encode(obj)) for obj in _objects_of(given)]
            try:
                yield
            finally:
                for obj, text in before:
                    if encode(obj) != text:
                        self.changes[f"{method} changes {_what_changed(obj, text)}"] = None

        if inspect.iscoroutinefunction(original):

            async def awaited(*given: Any) -> Any:
                with watching(given):
                    return await original(*given)

            return awaited

        def called(*given: Any) -> Any:
            with watching(given):
                return original(*given)

        return called


class Obstacles(FilterPlugin, PreBindPlugin):
    """Rejects pods, so that PostFilter and Unreserve are reached."""

    name = "ObstaclesOfThePluginCheck"

    def __init__(self, args: object = None, handle: Handle | None = None) -> None:
        self._numbers: dict[str, int] = {}
        self._refused: set[str] = set()

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> Status | None:
        """Rejects every third pod on all nodes."""
        return Status.unschedulable("an obstacle of the check") if self._number(pod) % 3 == 2 else None

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Rejects every third pod once."""
        uid = pod.metadata.uid
        if self._number(pod) % 3 != 1 or uid in self._refused:
            return None
        self._refused.add(uid)
        return Status.unschedulable("an obstacle of the check")

    def _number(self, pod: Pod) -> int:
        return self._numbers.setdefault(pod.metadata.uid, len(self._numbers))


class _Errors(logging.Handler):
    """Collects errors of plugins; other errors of the scheduler are consequences."""

    def __init__(self, found: dict[str, None]) -> None:
        super().__init__(logging.ERROR)
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith(_LOGGERS):
            text = record.getMessage()
            problem = described(record.exc_info[1]) if record.exc_info and record.exc_info[1] else ""
            self._found[text if problem in text else f"{text}: {problem}"] = None


def _objects_of(given: Iterable[object]) -> Iterator[Pod | Node]:
    for each in given:
        if isinstance(each, Pod | Node):
            yield each
        elif isinstance(each, QueuedPod):
            yield each.pod


def _what_changed(obj: Pod | Node, before: bytes) -> str:
    """The fields of objects that have changed."""
    old, new = msgspec.json.decode(before), to_builtins(obj)
    fields = [
        f"{section}.{field}"
        for section in ("metadata", "spec", "status")
        for field in sorted({*old.get(section, {}), *new.get(section, {})})
        if old.get(section, {}).get(field) != new.get(section, {}).get(field)
    ]
    return f"{', '.join(fields)} of {type(obj).__name__.lower()} {obj.metadata.name}"


def _in_virtual_time(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        run_in_virtual_time(main)
    else:  # called from a notebook or an asynchronous test, with a running loop
        with ThreadPoolExecutor(1) as thread:
            thread.submit(run_in_virtual_time, main).result()
