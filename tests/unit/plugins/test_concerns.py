"""A hint skips every pod that its concern leaves out, whatever changes about a node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kuberth.api.core import Node, Pod
from kuberth.api.wire import convert
from kuberth.evaluation import Evaluator
from kuberth.framework.cluster_events import Action, ClusterEvent, EventWithHint, Hint, Resource
from kuberth.framework.extension_points import EnqueueExtensions
from kuberth.testing import make_node, make_pod

KEYS = ("zone", "rack", "host", "other")
PLUGINS = ("InterPodAffinity", "PodTopologySpread")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("a", "b")), max_size=4)
TAINT = {"key": "k", "effect": "NoSchedule"}


def registered(plugin: str) -> EventWithHint:
    found = Evaluator([]).runner.profile.plugins[plugin]
    assert isinstance(found, EnqueueExtensions)
    wanted = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
    return next(
        each
        for each in found.events_to_register()
        if each.event.resource == wanted.resource and each.event.action & wanted.action
    )


REGISTERED = {name: registered(name) for name in PLUGINS}


def terms(keys: list[str]) -> dict[str, Any]:
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}} for key in keys
        ]
    }


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    some_keys = st.lists(st.sampled_from(KEYS), max_size=2, unique=True)
    constraints = [
        {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        for key in draw(some_keys)
    ]
    affinity = {"podAffinity": terms(draw(some_keys)), "podAntiAffinity": terms(draw(some_keys))}
    return make_pod("p", affinity=affinity, topologySpreadConstraints=constraints)


def node(labels: dict[str, str], *, tainted: bool) -> Node:
    made = make_node("n", taints=[TAINT] if tainted else [])
    return replace(made, metadata=replace(made.metadata, labels=labels))


@given(pods(), LABELS, LABELS, st.booleans(), st.booleans(), st.sampled_from(PLUGINS))
def test_pods_that_are_left_out_would_be_skipped(
    pod: Pod, before: dict[str, str], after: dict[str, str], was: bool, is_now: bool, plugin: str
) -> None:
    old, new = node(before, tainted=was), node(after, tainted=is_now)
    asked = REGISTERED[plugin]
    assert asked.hint is not None
    assert asked.concern is not None
    about = asked.concern.of_event(old, new)
    if about is not None and not set(about) & set(asked.concern.of_pod(pod)):
        assert asked.hint(pod, old, new) is Hint.SKIP


def test_a_node_that_comes_concerns_every_pod() -> None:
    for each in REGISTERED.values():
        assert each.concern is not None
        assert each.concern.of_event(None, convert(Node, {"metadata": {"name": "n"}})) is None
