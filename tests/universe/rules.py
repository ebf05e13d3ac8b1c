"""The rules of placement, written a second time for the judge: may this pod run on this node?

In: plain JSON trees of a pod, the nodes and the pods on them. Out: the names of the rules that the placement
breaks. Nothing here is imported from the scheduler, and nothing is fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Final

from tests.universe.claims import devices_fit, volumes_fit
from tests.universe.trees import (
    State,
    Tree,
    labels,
    meets_terms,
    namespace,
    quantity,
    selects_pod,
)

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


def broken_rules(pod: Tree, node_name: str, state: State) -> list[str]:
    """What forbids the pod on the node; empty: it may run there."""
    return [name for name, holds in _checks(pod, node_name, state) if not holds]


def may_run(pod: Tree, node_name: str, state: State) -> bool:
    """Whether nothing forbids the pod on the node."""
    return all(holds for _name, holds in _checks(pod, node_name, state))


def _checks(pod: Tree, node_name: str, state: State) -> Iterator[tuple[str, bool]]:
    node = state.nodes.get(node_name)
    if node is None:
        yield "the node does not exist", False
        return
    others = state.on(node_name)
    yield "node selector", selects_node(pod, node)
    yield "taints", tolerates_all(pod, node)
    yield "resources", resources_fit(pod, node, others)
    yield "host ports", not ports(pod) & {port for other in others for port in ports(other)}
    yield "pod affinity", affinity_holds(pod, node, state)
    yield "pod anti-affinity", anti_affinity_holds(pod, node, state)
    yield "topology spread", spread_holds(pod, node, state)
    yield "volumes", volumes_fit(pod, node, state)
    yield "devices", devices_fit(pod, node, state)
    yield "extender", not (state.extended and refused_by_extender(node_name))
    yield "license", is_licensed(pod, state)


# Resources and ports


def requests(pod: Tree) -> dict[str, Fraction]:
    """The larger of all containers together and the largest init container, and the overhead."""
    spec = pod["spec"]
    total: dict[str, Fraction] = {}
    for container in spec.get("containers", ()):
        for name, text in container.get("resources", {}).get("requests", {}).items():
            total[name] = total.get(name, Fraction()) + quantity(text)
    for container in spec.get("initContainers", ()):
        for name, text in container.get("resources", {}).get("requests", {}).items():
            total[name] = max(total.get(name, Fraction()), quantity(text))
    for name, text in spec.get("overhead", {}).items():
        total[name] = total.get(name, Fraction()) + quantity(text)
    return total


def resources_fit(pod: Tree, node: Tree, others: Sequence[Tree]) -> bool:
    """A resource that the pod does not request is not checked, even if the node has too little of it."""
    allocatable = {name: quantity(text) for name, text in node["status"].get("allocatable", {}).items()}
    if len(others) + 1 > allocatable.get("pods", Fraction()):
        return False
    used = [requests(other) for other in others]
    for name, wanted in requests(pod).items():
        taken = sum((each.get(name, Fraction()) for each in used), Fraction())
        if wanted > 0 and taken + wanted > allocatable.get(name, Fraction()):
            return False
    return True


def ports(pod: Tree) -> set[tuple[str, int]]:
    """Universes draw no host IPs."""
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"].get("containers", ())
        for port in container.get("ports", ())
        if port.get("hostPort")
    }


# Nodes


def selects_node(pod: Tree, node: Tree) -> bool:
    spec = pod["spec"]
    if any(labels(node).get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
        return False
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    return meets_terms(affinity.get("requiredDuringSchedulingIgnoredDuringExecution"), node)


def tolerates(pod: Tree, taint: Tree) -> bool:
    for each in pod["spec"].get("tolerations", ()):
        if each.get("effect") and each["effect"] != taint["effect"]:
            continue
        if each.get("key") and each["key"] != taint["key"]:
            continue
        if each.get("operator", "Equal") == "Exists" or each.get("value", "") == taint.get("value", ""):
            return True
    return False


def taints(node: Tree) -> list[Tree]:
    found = list(node["spec"].get("taints", ()))
    if node["spec"].get("unschedulable"):
        found.append({"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
    return [taint for taint in found if taint["effect"] in ("NoSchedule", "NoExecute")]


def tolerates_all(pod: Tree, node: Tree) -> bool:
    return all(tolerates(pod, taint) for taint in taints(node))


# Other pods


def terms(pod: Tree, which: str) -> list[Tree]:
    affinity = pod["spec"].get("affinity", {}).get(which, {})
    found: list[Tree] = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", [])
    return found


def term_matches(owner: Tree, term: Tree, pod: Tree) -> bool:
    """Without a list of namespaces, a term speaks of its owner's."""
    namespaces = term.get("namespaces") or [namespace(owner)]
    return namespace(pod) in namespaces and selects_pod(term["labelSelector"], pod)


def affinity_holds(pod: Tree, node: Tree, state: State) -> bool:
    wanted = terms(pod, "podAffinity")
    if not all(term["topologyKey"] in labels(node) for term in wanted):
        return False

    def near(other_node: str, term: Tree) -> bool:
        key = term["topologyKey"]
        return labels(state.nodes[other_node]).get(key) == labels(node)[key]

    # A pod counts for one term only if it matches all of them.
    matching = [
        (other, where)
        for other, where in state.placed
        if all(term_matches(pod, term, other) for term in wanted)
    ]
    if all(any(near(where, term) for _other, where in matching) for term in wanted):
        return True
    somewhere = any(
        term["topologyKey"] in labels(state.nodes[where]) for _o, where in matching for term in wanted
    )
    # The first of a group that seeks its own company may go anywhere.
    return not somewhere and all(term_matches(pod, term, pod) for term in wanted)


def seeks_company(pod: Tree, state: State) -> bool:
    """Whether the pod has to be near others that its affinity selects, and not the first of them."""
    wanted = terms(pod, "podAffinity")
    return any(
        all(term_matches(pod, term, other) for term in wanted)
        and any(term["topologyKey"] in labels(state.nodes[where]) for term in wanted)
        for other, where in state.placed
    )


def anti_affinity_holds(pod: Tree, node: Tree, state: State) -> bool:
    here = labels(node)
    for other, where in state.placed:
        there = labels(state.nodes[where])
        for owner, subject in ((pod, other), (other, pod)):
            for term in terms(owner, "podAntiAffinity"):
                key = term["topologyKey"]
                if (
                    key in here
                    and key in there
                    and here[key] == there[key]
                    and term_matches(owner, term, subject)
                ):
                    return False
    return True


def spread_holds(pod: Tree, node: Tree, state: State) -> bool:
    """Domains are those of nodes that the pod selects and that have all the keys of its constraints.

    Pods that are being deleted do not count.
    """
    constraints = [
        each
        for each in pod["spec"].get("topologySpreadConstraints", ())
        if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    keys = [each["topologyKey"] for each in constraints]
    if not all(key in labels(node) for key in keys):
        return False
    eligible = {
        name: labels(each)
        for name, each in state.nodes.items()
        if selects_node(pod, each) and all(key in labels(each) for key in keys)
    }
    for constraint in constraints:
        key = constraint["topologyKey"]
        counts = {each[key]: 0 for each in eligible.values()}
        for other, where in state.placed:
            counted = where in eligible and namespace(other) == namespace(pod)
            if counted and "deletionTimestamp" not in other["metadata"]:
                counts[eligible[where][key]] += selects_pod(constraint["labelSelector"], other)
        fewest = min(counts.values(), default=0)
        if len(counts) < constraint.get("minDomains", 1):
            fewest = 0
        itself = selects_pod(constraint["labelSelector"], pod)
        if counts.get(labels(node)[key], 0) + itself - fewest > constraint["maxSkew"]:
            return False
    return True


# What is the universe's own


def refused_by_extender(node_name: str) -> bool:
    """The extender of universes refuses every third node."""
    return int(node_name[1:]) % 3 == 0


def is_licensed(pod: Tree, state: State) -> bool:
    """A pod that names a license needs it to be there and valid; of z and g, Permit and PreEnqueue decide."""
    return labels(pod).get("license") in (None, "z", "g") or has_license(pod, state)


def has_license(pod: Tree, state: State) -> bool:
    """Whether the license is valid that the pod names, if it names one."""
    wanted = labels(pod).get("license")
    if wanted is None:
        return True
    found = state.others("License").get(f"{namespace(pod)}/{wanted}")
    return found is not None and bool(found["spec"]["valid"])
