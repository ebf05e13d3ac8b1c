from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kuberth.config import FeatureGates
from kuberth.config.types import Plugins, PluginSet
from kuberth.errors import ConfigError
from kuberth.framework import (
    Action,
    BindPlugin,
    ClusterEvent,
    EnqueueExtensions,
    EventWithHint,
    FilterPlugin,
    Handle,
    Hint,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Resource,
    ScorePlugin,
)
from kuberth.framework.cluster_events import ALL_EVENTS
from kuberth.framework.profile import build_profile
from kuberth.framework.registry import Registry
from tests.unit.framework.harness import ApiBinder, Arrival, build, make_handle, plugin, profile_config

MADE: list[tuple[Any, Handle]] = []
EVERYWHERE = plugin(
    "Everywhere",
    PreEnqueuePlugin,
    PreFilterPlugin,
    FilterPlugin,
    PostFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    ReservePlugin,
    PermitPlugin,
    PreBindPlugin,
    BindPlugin,
    PostBindPlugin,
    QueueSortPlugin,
    __init__=lambda args, handle: MADE.append((args, handle)),
    **dict.fromkeys(
        (
            *("less", "pre_enqueue", "pre_filter", "filter", "post_filter", "pre_score", "score", "reserve"),
            *("unreserve", "permit", "pre_bind", "bind", "post_bind"),
        )
    ),
)


# Making


def test_a_plugin_at_several_points_is_made_once() -> None:
    MADE.clear()
    handle = make_handle()
    profile = build(EVERYWHERE, handle=handle, sort_and_bind=(), args={"Everywhere": {"level": 1}})
    assert [({"level": 1}, handle)] == MADE
    everyone = {
        profile.queue_sort,
        *profile.pre_enqueue,
        *profile.pre_filter,
        *profile.filter,
        *profile.post_filter,
        *profile.pre_score,
        *profile.score,
        *profile.reserve,
        *profile.permit,
        *profile.pre_bind,
        *profile.bind,
        *profile.post_bind,
    }
    assert everyone == {profile.plugins["Everywhere"]}


def test_a_plugin_named_at_a_point_beside_multi_point_is_made_once_too() -> None:
    MADE.clear()
    build(EVERYWHERE, sort_and_bind=(), filter=["Everywhere"], score=["Everywhere"])
    assert len(MADE) == 1


def test_the_order_is_the_configurations_at_each_point() -> None:
    plugins = [
        plugin(name, FilterPlugin, ReservePlugin, filter=None, reserve=None, unreserve=None) for name in "ABC"
    ]
    profile = build(*plugins, reserve=["C", "A", "B"])
    assert [each.name for each in profile.filter] == ["A", "B", "C"]
    assert [each.name for each in profile.reserve] == ["C", "A", "B"]


def test_weights() -> None:
    plugins = [plugin(name, ScorePlugin, score=0) for name in "ABC"]
    assert build(*plugins, weights={"A": 3, "C": 2}).score_weights == {"A": 3, "B": 1, "C": 2}


@pytest.mark.parametrize(
    "failure, message",
    [
        pytest.param(
            ValueError("no level"), "plugin 'Bad' cannot be initialized: ValueError: no level", id="raises"
        ),
        pytest.param(
            ConfigError("level: too low"),
            "^plugin 'Bad' cannot be initialized: level: too low$",
            id="says-itself-what-to-mend",
        ),
    ],
)
def test_a_constructor_that_fails(failure: Exception, message: str) -> None:
    def fail(*_: object) -> None:
        raise failure

    made = plugin("Bad", FilterPlugin, filter=None, __init__=fail)
    with pytest.raises(ConfigError, match=message):
        build(made)


class Narrow(FilterPlugin):
    name = "Narrow"

    def __init__(self) -> None: ...

    def filter(self, *_: object) -> None: ...


class Keyword(Narrow):
    name = "Keyword"

    def __init__(self, args: Any, *, handle: Handle) -> None: ...


@pytest.mark.parametrize(
    ("made", "taken"),
    [(Narrow, "(self)"), (Keyword, "(self, args, *, handle)")],
)
def test_a_constructor_of_another_signature(made: type[Plugin], taken: str) -> None:
    line = made.__init__.__code__.co_firstlineno
    with pytest.raises(ConfigError) as raised:
        build(made)
    assert str(raised.value) == (
        f"plugin '{made.__name__}' cannot be initialized: {made.__name__}.__init__ ({__file__}, line {line}) "
        f"takes {taken}, but it is called with the plugin's arguments and the handle: "
        "expected (self, args, handle)"
    )


class AsyncFilter(Narrow):
    name = "AsyncFilter"

    def __init__(self, _args: Any, _handle: Handle) -> None: ...

    async def filter(self, *_: object) -> None: ...  # type: ignore[override] # what authors write by mistake


class WithoutNode(AsyncFilter):
    name = "WithoutNode"

    def filter(self, state: object, pod: object) -> None: ...  # type: ignore[override] # the same


class AsyncStart(AsyncFilter):
    name = "AsyncStart"

    def filter(self, state: object, pod: object, node: object, spare: int = 0) -> None: ...  # type: ignore[override]

    async def start(self) -> None: ...


def test_a_method_that_cannot_be_called() -> None:
    line = WithoutNode.filter.__code__.co_firstlineno
    with pytest.raises(ConfigError) as raised:
        build(WithoutNode)
    assert str(raised.value) == (
        f"plugin 'WithoutNode': WithoutNode.filter ({__file__}, line {line}) takes (self, state, pod), "
        "but it is called with (state, pod, node)"
    )


def test_a_method_that_is_async_where_the_scheduler_does_not_wait() -> None:
    with pytest.raises(
        ConfigError, match="plugin 'AsyncFilter': filter is `async def`, but the scheduler does"
    ):
        build(AsyncFilter)
    build(AsyncStart)


def test_an_unregistered_plugin() -> None:
    with pytest.raises(ConfigError, match="profile 'default-scheduler': plugin 'Ghost' is not registered"):
        build(filter=["Ghost"])


def test_a_plugin_at_a_point_it_does_not_serve() -> None:
    made = plugin("F", FilterPlugin, filter=None)
    with pytest.raises(
        ConfigError, match="'default-scheduler': plugin 'F' is enabled at score but is no ScorePlugin"
    ):
        build(made, score=["F"])


OTHER_SORT = plugin("OtherSort", QueueSortPlugin, less=False)


@pytest.mark.parametrize(
    "plugins, names",
    [
        pytest.param((ApiBinder,), "none", id="none"),
        pytest.param((Arrival, OTHER_SORT, ApiBinder), "Arrival, OtherSort", id="two"),
    ],
)
def test_exactly_one_plugin_sorts_the_queue(plugins: tuple[type[Plugin], ...], names: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'default-scheduler' needs exactly one queue sort plugin, but has: {names}$"
    ):
        build(sort_and_bind=plugins)


def test_someone_has_to_bind() -> None:
    with pytest.raises(ConfigError, match="profile 'default-scheduler' needs at least one bind plugin"):
        build(sort_and_bind=(Arrival,))


def test_a_disabled_point() -> None:
    made = plugin("F", FilterPlugin, ReservePlugin, filter=None, reserve=None, unreserve=None)
    registry = Registry()
    for each in (made, Arrival, ApiBinder):
        registry.register_class(each, origin="the test")
    config = profile_config(registry.names())
    disabled = PluginSet(disabled=(type(config.plugins.multi_point.enabled[0])(name="F"),))
    config = type(config)(
        scheduler_name="s", plugins=Plugins(multi_point=config.plugins.multi_point, filter=disabled)
    )
    profile = build_profile(config, registry, make_handle())
    assert (len(profile.filter), len(profile.reserve)) == (0, 1)


# Events


def hint(*_: object) -> Hint:
    return Hint.SKIP


def registered(
    *points: type[Plugin], gates: FeatureGates | None = None, **methods: Any
) -> list[tuple[Any, ...]]:
    made = plugin("P", *points, **methods)
    profile = build(made, handle=make_handle(gates=gates))
    return [each[:4] for each in profile.hints]


@pytest.mark.parametrize(
    "point, methods",
    [
        (PreEnqueuePlugin, {"pre_enqueue": None}),
        (PreFilterPlugin, {"pre_filter": None}),
        (FilterPlugin, {"filter": None}),
        (ReservePlugin, {"reserve": None, "unreserve": None}),
        (PermitPlugin, {"permit": None}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_plugin_that_may_reject_and_does_not_say_hears_of_everything(
    point: type[Plugin], methods: dict[str, Any]
) -> None:
    assert registered(point, **methods) == [("P", each.event, None, False) for each in ALL_EVENTS]


@pytest.mark.parametrize(
    "point, methods",
    [
        (PreScorePlugin, {"pre_score": None}),
        (ScorePlugin, {"score": 0}),
        (PreBindPlugin, {"pre_bind": None}),
        (PostBindPlugin, {"post_bind": None}),
        (PostFilterPlugin, {"post_filter": (None, None)}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_plugin_that_rejects_no_pod_hears_of_nothing(point: type[Plugin], methods: dict[str, Any]) -> None:
    assert registered(point, **methods) == []


NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_LABEL = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_LABEL)
NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)
POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


@pytest.mark.parametrize(
    "events, implied",
    [
        pytest.param([], False, id="no-event-at-all"),
        pytest.param([EventWithHint(POD_DELETE, hint)], False, id="pods-only"),
        pytest.param([EventWithHint(NODE_ADD, hint)], True, id="node-add-alone"),
        pytest.param([EventWithHint(NODE_ADD), EventWithHint(NODE_TAINT, hint)], False, id="both"),
        pytest.param([EventWithHint(NODE_TAINT)], False, id="taint-alone"),
        pytest.param([EventWithHint(ClusterEvent(Resource.NODE, Action.ALL))], False, id="all-actions"),
        pytest.param(
            [EventWithHint(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), hint)],
            True,
            id="node-add-among-others",
        ),
        pytest.param(
            [EventWithHint(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE))], False, id="any-update"
        ),
    ],
)
def test_a_plugin_gets_the_events_it_asks_for_and_taints_with_new_nodes(
    events: list[EventWithHint], implied: bool
) -> None:
    expected = [("P", event, function, False) for event, function, _concern in events]
    if implied:
        expected.append(("P", NODE_TAINT, None, True))
    assert registered(FilterPlugin, EnqueueExtensions, filter=None, events_to_register=events) == expected


@pytest.mark.parametrize(
    "actions, implied",
    [
        pytest.param(Action.ADD, [NODE_LABEL, NODE_TAINT], id="node-add-alone"),
        pytest.param(Action.ADD | Action.UPDATE_NODE_TAINT, [NODE_LABEL], id="with-taints"),
        pytest.param(Action.ADD | Action.UPDATE_NODE_LABEL, [NODE_TAINT], id="with-labels"),
        pytest.param(Action.ADD | Action.UPDATE, [], id="with-all-updates"),
        pytest.param(Action.DELETE, [], id="no-addition"),
    ],
)
def test_without_hints_labels_and_taints_come_with_new_nodes(
    actions: Action, implied: list[ClusterEvent]
) -> None:
    """The pre-check may have kept the addition from a pod."""
    event = ClusterEvent(Resource.NODE, actions)
    assert registered(
        FilterPlugin,
        EnqueueExtensions,
        gates=FeatureGates({"SchedulerQueueingHints": False}),
        filter=None,
        events_to_register=[EventWithHint(event, hint)],
    ) == [("P", event, None, False), *(("P", other, None, True) for other in implied)]


def test_without_the_feature_no_hint_is_asked() -> None:
    gates = FeatureGates({"SchedulerQueueingHints": False})
    events = [EventWithHint(POD_DELETE, hint)]
    assert registered(
        FilterPlugin, EnqueueExtensions, gates=gates, filter=None, events_to_register=events
    ) == [("P", POD_DELETE, None, False)]


def generator() -> Iterable[EventWithHint]:
    yield EventWithHint(POD_DELETE)


def test_events_may_come_one_by_one() -> None:
    found = registered(FilterPlugin, EnqueueExtensions, filter=None, events_to_register=generator)
    assert found == [("P", POD_DELETE, None, False)]


@pytest.mark.parametrize(
    "answer, message",
    [
        pytest.param(KeyError("x"), "failed in events_to_register: KeyError: 'x'", id="raises"),
        pytest.param(
            None, "failed in events_to_register: TypeError: 'NoneType' object is not iterable", id="nothing"
        ),
        pytest.param([5], "events_to_register returned 5; expected EventWithHint", id="a-number"),
        pytest.param(
            [NODE_ADD], "events_to_register returned ClusterEvent.*; expected EventWithHint", id="bare-event"
        ),
        pytest.param([EventWithHint("Node")], "events_to_register returned EventWithHint", id="no-event"),  # type: ignore[arg-type]  # meant
        pytest.param(
            [EventWithHint(ClusterEvent(Resource.NODE, "Add"))],  # type: ignore[arg-type]  # meant
            "events_to_register returned EventWithHint",
            id="no-action",
        ),
        pytest.param(
            [EventWithHint(NODE_ADD, Hint.QUEUE)],  # type: ignore[arg-type]  # meant
            "events_to_register returned EventWithHint",
            id="a-hint-that-is-no-function",
        ),
    ],
)
def test_events_that_make_no_sense(answer: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"plugin 'P'.* {message}|plugin 'P' {message}"):
        registered(FilterPlugin, EnqueueExtensions, filter=None, events_to_register=answer)
