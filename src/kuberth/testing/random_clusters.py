"""Random nodes and pods for checks of plugins.

In: a seed, and strings that the plugin under test uses. Out: nodes, placed pods and pending pods in which
these strings occur as keys and values of labels and annotations, so that branches of the plugin are reached.
"""

from __future__ import annotations

import random
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from kuberth.api.core import Node, Pod
from kuberth.api.well_known import ZONE
from kuberth.framework.extension_points import Plugin
from kuberth.testing.factories import make_node, make_pod

_USUAL: Final = ("app", "tier", "disk", "true", "false", "a", "b", "1", "2")
_CPUS: Final = ("1", "2", "4", "8", "16", "32", "64")
_REQUESTS: Final = ("0", "100m", "500m", "1", "2", "4", "12")
_MAX_WORD: Final = 63
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class RandomCluster:
    """Objects generated from a seed."""

    def __init__(self, seed: int, *, words: Iterable[str] = (), nodes: int = 0) -> None:
        """`nodes`: the number of nodes; 0: a small random number."""
        self._chance = random.Random(seed)
        self._words = [*words] or [*_USUAL]
        number = nodes or self._chance.randint(1, 12)
        self.nodes = [self.node(f"node-{index}") for index in range(number)]
        """The nodes."""
        self.placed = [
            self.pod(f"placed-{index}", node=self._chance.choice(self.nodes)) for index in range(number)
        ]
        """Pods on the nodes."""

    def node(self, name: str) -> Node:
        """Another node."""
        labels = {ZONE: self._chance.choice("abc")} if self._chance.random() < 0.8 else {}
        taints = [
            {"key": self._word(), "value": self._word(), "effect": self._chance.choice(_EFFECTS)}
            for _ in range(self._chance.choice((0, 0, 0, 1, 2)))
        ]
        node = make_node(
            name,
            cpu=self._chance.choice(_CPUS),
            memory=f"{self._chance.choice((1, 4, 16, 64))}Gi",
            pods=self._chance.choice(("1", "3", "110")),
            labels={**labels, **self._pairs()},
            taints=taints,
            unschedulable=self._chance.random() < 0.1,
        )
        annotated = msgspec.structs.replace(node.metadata, annotations=self._pairs())
        return msgspec.structs.replace(node, metadata=annotated)

    def pod(self, name: str, *, node: Node | None = None) -> Pod:
        """Another pod, placed on a node or pending."""
        spec: dict[str, Any] = {}
        if self._chance.random() < 0.2:
            spec["nodeSelector"] = self._pairs(most=1)
        if self._chance.random() < 0.3:
            spec["tolerations"] = [{"key": self._word(), "operator": "Exists"}]
        if self._chance.random() < 0.2:
            term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": self._pairs(most=1)}}
            kind = self._chance.choice(("podAffinity", "podAntiAffinity"))
            spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return make_pod(
            name,
            uid=name,
            namespace=self._chance.choice(("default", "default", "team-a")),
            cpu=self._chance.choice(_REQUESTS),
            memory=self._chance.choice(("0", "128Mi", "2Gi")),
            labels=self._pairs(),
            node="" if node is None else node.metadata.name,
            priority=self._chance.choice((None, 0, 100, 1000)),
            metadata={"annotations": self._pairs()},
            **spec,
        )

    def equal_pod(self, pod: Pod, name: str) -> Pod:
        """The same pod under another name."""
        metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name)
        return msgspec.structs.replace(pod, metadata=metadata)

    def change(self, node: Node) -> Node:
        """The node with properties of another one: labels, annotations, taints, size, or all of them."""
        other = self.node(node.metadata.name)
        metadata, spec, status = node.metadata, node.spec, node.status
        what = self._chance.choice(("labels", "annotations", "spec", "status", "all"))
        if what in ("labels", "all"):
            metadata = msgspec.structs.replace(metadata, labels=other.metadata.labels)
        if what in ("annotations", "all"):
            metadata = msgspec.structs.replace(metadata, annotations=other.metadata.annotations)
        return msgspec.structs.replace(
            node,
            metadata=metadata,
            spec=other.spec if what in ("spec", "all") else spec,
            status=other.status if what in ("status", "all") else status,
        )

    def _word(self) -> str:
        return self._chance.choice(self._words if self._chance.random() < 0.8 else _USUAL)

    def _pairs(self, most: int = 4) -> dict[str, str]:
        return {self._word(): self._word() for _ in range(self._chance.randint(0, most))}


def words_of(plugin: type[Plugin], args: Mapping[str, Any] | None = None) -> Sequence[str]:
    """Strings in the plugin's code, its arguments and their defaults that may be label keys or values."""
    found: dict[str, None] = {}
    for kind in plugin.__mro__:
        if kind.__module__.split(".")[0] not in ("kuberth", "builtins", "abc", "typing"):
            for value in vars(kind).values():
                code = getattr(value, "__code__", None)
                if isinstance(code, types.CodeType):
                    found.update(dict.fromkeys(_texts(code)))
    args_type = plugin.args_type
    if isinstance(args_type, type) and issubclass(args_type, msgspec.Struct):
        defaults = [field.default for field in msgspec.structs.fields(args_type)]
        found.update(dict.fromkeys(each for each in defaults if isinstance(each, str)))
    found.update(dict.fromkeys(each for each in (args or {}).values() if isinstance(each, str)))
    return [word for word in found if 0 < len(word) <= _MAX_WORD and not any(map(str.isspace, word))]


def _texts(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, types.CodeType):
            yield from _texts(constant)
