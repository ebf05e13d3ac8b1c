"""Holds the extenders of a configuration, in the order in which they are called.

In: the configuration's `extenders`. Out: the extenders of a pod, verb by verb. Each profile's runner holds
the whole set, so that a new configuration replaces both together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from kuberth.api.core import Pod
from kuberth.api.pods import UNFINISHED
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.config.types import Extender
from kuberth.extenders.http_extender import HttpExtender
from kuberth.extenders.whole_objects import PENDING, WholeObjects
from kuberth.informers.reflector import Reflector
from kuberth.observe import verbosity


class Extenders:
    """The extenders, ignorable ones last. An empty set is false and costs nothing."""

    def __init__(
        self, extenders: Iterable[HttpExtender] = (), *, objects: WholeObjects | None = None
    ) -> None:
        self._all = tuple(sorted(extenders, key=lambda extender: extender.config.ignorable))
        self._objects = objects
        self.score_nodes = any(
            extender.config.filter_verb or extender.config.prioritize_verb for extender in self._all
        )
        """Whether an extender scores nodes; then a single feasible node is scored too."""

    def __iter__(self) -> Iterator[HttpExtender]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def decide_about(self, pod: Pod) -> bool:
        """Whether an extender filters or scores nodes for the pod, so that the cycle has to wait."""
        return any(_decides(extender.config) and extender.is_interested(pod) for extender in self._all)

    def filtering(self, pod: Pod) -> Sequence[HttpExtender]:
        return [each for each in self._all if each.config.filter_verb and each.is_interested(pod)]

    def prioritizing(self, pod: Pod) -> Sequence[HttpExtender]:
        return [each for each in self._all if each.config.prioritize_verb and each.is_interested(pod)]

    def preempting(self, pod: Pod) -> Sequence[HttpExtender]:
        return [each for each in self._all if each.config.preempt_verb and each.is_interested(pod)]

    def binding(self, pod: Pod) -> Sequence[HttpExtender]:
        return [each for each in self._all if each.config.bind_verb and each.is_interested(pod)]

    @property
    def reflectors(self) -> Sequence[Reflector[object]]:
        """The reflectors of whole objects for extenders; the scheduler runs them."""
        return () if self._objects is None else self._objects.reflectors

    async def close(self) -> None:
        """Close all connections; further calls fail."""
        await asyncio.gather(*(extender.close() for extender in self._all))


NO_EXTENDERS = Extenders()


def build_extenders(configs: Sequence[Extender], *, api: Api, clock: Clock) -> Extenders:
    """Create the extenders; ConfigError if one of them is not usable."""
    if not configs:
        return NO_EXTENDERS
    objects = WholeObjects(api, pods=_followed_pods(configs), nodes=any(map(_receives_nodes, configs)))
    extenders = [
        HttpExtender(config, objects, index=index, clock=clock) for index, config in enumerate(configs)
    ]
    if verbosity.level >= 2:
        for extender in extenders:
            verbosity.log(2, "Creating extender", extender=extender.name)
    return Extenders(extenders, objects=objects)


def _decides(config: Extender) -> bool:
    return bool(config.filter_verb or config.prioritize_verb or config.preempt_verb)


def _receives_nodes(config: Extender) -> bool:
    return not config.node_cache_capable and bool(config.filter_verb or config.prioritize_verb)


def _followed_pods(configs: Iterable[Extender]) -> str | None:
    """The field selector of the pods to watch: only extenders without a node cache receive whole victims."""
    configs = [config for config in configs if _decides(config)]
    if any(config.preempt_verb and not config.node_cache_capable for config in configs):
        return UNFINISHED
    return PENDING if configs else None
