"""Plain JSON trees as the judge reads them: a state of the cluster, quantities, labels and requirements.

In: trees. Out: what they say. Nothing here is imported from the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Set
from fractions import Fraction
from functools import cache
from typing import Any, Final

Tree = Mapping[str, Any]

_UNITS: Final = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
}


class State:
    """The nodes of a moment, the pods on them by the node's name, and the objects of other kinds."""

    def __init__(
        self,
        nodes: Mapping[str, Tree],
        placed: Iterable[tuple[Tree, str]],
        *,
        others: Callable[[str], Mapping[str, Tree]] = lambda _kind: {},
        own: Mapping[str, int] | None = None,
        settled: Mapping[str, Collection[str]] | None = None,
        extended: bool = False,
        cautious: bool = False,
    ) -> None:
        self.nodes = nodes
        self.placed = [(pod, node) for pod, node in placed if node in nodes]
        """Pods whose node is gone take part in nothing."""
        self.others = others
        """The objects of a kind, by key."""
        self.own = own or {}
        """By UID of the pods that the process itself placed: the revision of the slices that it had seen."""
        self.settled = settled or {}
        """By UID of these pods: the device claims that had devices before, so that the process gave none."""
        self.cautious = cautious
        """Whether what is not known for sure counts as taken."""
        self.extended = extended
        """Whether the extender has a say."""

    def on(self, name: str) -> list[Tree]:
        return [pod for pod, node in self.placed if node == name]

    def without(self, node_name: str, leave: Callable[[Tree], bool]) -> State:
        """The same without the pods on a node that `leave` it."""
        placed = [(pod, node) for pod, node in self.placed if node != node_name or not leave(pod)]
        return self._with(placed)

    def with_pod(self, pod: Tree, node_name: str) -> State:
        """The same with one more pod."""
        return self.with_pods([(pod, node_name)])

    def with_pods(self, more: Iterable[tuple[Tree, str]]) -> State:
        """The same with more pods."""
        return self._with([*self.placed, *more])

    def in_doubt(self) -> State:
        """The same, with all that may be taken counted as taken."""
        return self._with(self.placed, cautious=True)

    def with_marked_pods(self, *, only: Set[str] | None = None) -> State:
        """The same, with pods that are being deleted counted like the others; `only`: these, by UID."""
        return self._with(
            [
                (_unmarked(pod) if only is None or pod["metadata"]["uid"] in only else pod, node)
                for pod, node in self.placed
            ]
        )

    def replacing(self, others: Mapping[str, Tree]) -> State:
        """The same, with other versions of some pods, by UID."""
        return self._with([(others.get(pod["metadata"]["uid"], pod), node) for pod, node in self.placed])

    def _with(self, placed: Iterable[tuple[Tree, str]], *, cautious: bool = False) -> State:
        return State(
            self.nodes,
            placed,
            others=self.others,
            own=self.own,
            settled=self.settled,
            extended=self.extended,
            cautious=cautious or self.cautious,
        )


def _unmarked(pod: Tree) -> Tree:
    metadata = {name: value for name, value in pod["metadata"].items() if name != "deletionTimestamp"}
    return {**pod, "metadata": metadata}


@cache
def quantity(text: str | float) -> Fraction:
    text = str(text)
    digits = text.rstrip("mkMGKi")
    return Fraction(digits) * _UNITS[text[len(digits) :]]


def labels(obj: Tree) -> Mapping[str, str]:
    found: Mapping[str, str] = obj["metadata"].get("labels", {})
    return found


def requirement_holds(requirement: Tree, values: Mapping[str, str]) -> bool:
    key, operator, wanted = requirement["key"], requirement["operator"], requirement.get("values", ())
    match operator:
        case "In":
            return key in values and values[key] in wanted
        case "NotIn":
            return values.get(key) not in wanted
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case "Gt":
            return key in values and int(values[key]) > int(wanted[0])
        case "Lt":
            return key in values and int(values[key]) < int(wanted[0])
    raise ValueError(f"operator {operator}")


def selects_pod(selector: Tree, pod: Tree) -> bool:
    wanted = selector.get("matchLabels", {})
    return all(labels(pod).get(key) == value for key, value in wanted.items()) and all(
        requirement_holds(each, labels(pod)) for each in selector.get("matchExpressions", ())
    )


def namespace(pod: Tree) -> str:
    return str(pod["metadata"]["namespace"])


def annotation(obj: Tree, name: str) -> str:
    return str(obj["metadata"].get("annotations", {}).get(name, ""))


def meets_terms(selector: Tree | None, node: Tree) -> bool:
    """Whether a node selector accepts a node; none accepts all."""
    if selector is None:
        return True
    return any(
        all(requirement_holds(each, labels(node)) for each in term.get("matchExpressions", ()))
        and all(
            requirement_holds(each, {"metadata.name": node["metadata"]["name"]})
            for each in term.get("matchFields", ())
        )
        for term in selector["nodeSelectorTerms"]
        if term.get("matchExpressions") or term.get("matchFields")
    )
