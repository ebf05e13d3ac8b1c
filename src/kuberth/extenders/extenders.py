"""All extenders of a configuration, in the order in which they are asked.

In: the configuration's `extenders`. Out: who of them has a say about a pod, verb by verb. The whole set hangs
on each profile's runner, so that it is swapped with the profiles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

from kuberth.api.core import Pod
from kuberth.client.protocol import Api
from kuberth.clock import Clock
from kuberth.config.types import Extender
from kuberth.extenders.http_extender import HttpExtender
from kuberth.extenders.whole_objects import PENDING, UNFINISHED, WholeObjects
from kuberth.informers.reflector import Reflector
from kuberth.observe import verbosity


class Extenders:
    """Those that may be ignored come last. Empty, it is false and costs nothing."""

    def __init__(
        self, extenders: Iterable[HttpExtender] = (), *, objects: WholeObjects | None = None
    ) -> None:
        self._all = tuple(sorted(extenders, key=lambda extender: extender.config.ignorable))
        self._objects = objects
        self.look_at_nodes = any(
            extender.config.filter_verb or extender.config.prioritize_verb for extender in self._all
        )
        """Whether more nodes than one are worth finding, though no plugin scores them."""

    def __iter__(self) -> Iterator[HttpExtender]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def decide_about(self, pod: Pod) -> bool:
        """Whether one of them is asked while the pod's node is chosen, so that its cycle has to wait."""
        return any(_has_say(extender.config) and extender.is_interested(pod) for extender in self._all)

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
        """What keeps the objects current that they are sent; whoever runs the scheduler runs these."""
        return () if self._objects is None else self._objects.reflectors

    async def close(self) -> None:
        """End all connections; what is asked from now on fails."""
        await asyncio.gather(*(extender.close() for extender in self._all))


NO_EXTENDERS = Extenders()


def build_extenders(configs: Sequence[Extender], *, api: Api, clock: Clock) -> Extenders:
    """ConfigError: one of them cannot be used, whoever it is."""
    if not configs:
        return NO_EXTENDERS
    objects = WholeObjects(api, pods=_followed_pods(configs), nodes=any(map(_is_sent_nodes, configs)))
    extenders = [
        HttpExtender(config, objects, index=index, clock=clock) for index, config in enumerate(configs)
    ]
    if verbosity.level >= 2:
        for extender in extenders:
            verbosity.log(2, "Creating extender", extender=extender.name)
    return Extenders(extenders, objects=objects)


def _has_say(config: Extender) -> bool:
    return bool(config.filter_verb or config.prioritize_verb or config.preempt_verb)


def _is_sent_nodes(config: Extender) -> bool:
    return not config.node_cache_capable and bool(config.filter_verb or config.prioritize_verb)


def _followed_pods(configs: Iterable[Extender]) -> str | None:
    """Which pods: victims are sent whole only to those who keep no nodes of their own."""
    configs = [config for config in configs if _has_say(config)]
    if any(config.preempt_verb and not config.node_cache_capable for config in configs):
        return UNFINISHED
    return PENDING if configs else None
