"""The extension points: one small abstract class each, with the contract in its docstring.

A plugin is a class that lists its extension points as base classes and is constructed with its arguments and
a `Handle`. Construction fails if a method is missing. Where a method returns a status, `None` means success.
Methods up to Permit, and Unreserve and PostBind, are synchronous and run on the scheduler's thread;
`pre_bind` and `bind` may be plain or `async`.
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Union

import numpy as np
from numpy.typing import NDArray

from kuberth.api.core import Pod
from kuberth.cluster.nodes import NodeRow, Nodes
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.what_if import LoggedWhatIf
from kuberth.framework.cluster_events import EventWithHint
from kuberth.framework.cycle_state import CycleState
from kuberth.framework.diagnosis import Diagnosis
from kuberth.framework.inputs import Inputs
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.status import Code, Status
from kuberth.framework.verdict import Verdict

if TYPE_CHECKING:
    from kuberth.framework.handle import Handle

Scores = NDArray[np.int64]
MaybeStatus = Status | None
MaybeAsyncStatus = Union[Status, None, Awaitable[Status | None]]  # noqa: UP007 - | fails on None at runtime


class Plugin(abc.ABC):
    """Base class of all plugins. `name` is the plugin's name in configuration files."""

    name: ClassVar[str]
    """The plugin's name in configuration files, messages and metrics."""
    args_type: ClassVar[type | None] = None
    """The msgspec struct for the plugin's `pluginConfig` arguments; None: a plain dict."""
    inputs: Inputs | None = None
    """States what the plugin's answers depend on, on the class or set in the constructor. None: the plugin is
    called for every pod."""

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:  # noqa: B027 - optional
        """`args` are the plugin's arguments from the configuration; `handle` gives access to the scheduler.

        Override it if you need them: `def __init__(self, args: MyArgs, handle: Handle) -> None`.
        """

    def start(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: start background work and acquire resources.

        Called once, before the first pod, when the scheduler starts, or before a reload activates the plugin.
        If it raises, the scheduler does not start, or the reload is rejected.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: release what `start` acquired.

        Called once, as the last call, when the scheduler ends, or after a reload has replaced the plugin and
        its in-flight pods are done. Tasks that the constructor or `start` spawned are cancelled afterwards.
        Exceptions are logged.
        """
        return None

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Plugin:
        for base in (QueueSortPlugin, FilterPlugin, ScorePlugin):
            if issubclass(cls, base) and not base._is_implemented(cls):
                raise TypeError(
                    f"Can't instantiate plugin {cls.__name__}: {base.__name__} asks for "
                    f"{' or '.join(f'{form}()' for form in base._forms)}"
                )
        return super().__new__(cls)


class _TwoForms(Plugin):
    """An extension point that can be implemented in two forms; one is enough."""

    _forms: ClassVar[tuple[str, str]]

    @classmethod
    def _is_implemented(cls, plugin: type[Plugin]) -> bool:
        return any(getattr(plugin, form) is not getattr(cls, form) for form in cls._forms)


class EnqueueExtensions(Plugin):
    """Registers the cluster events that may make pods schedulable that this plugin rejected."""

    @abc.abstractmethod
    def events_to_register(self) -> Iterable[EventWithHint]:
        """The events, each with an optional hint function. If the list is empty, only an update of the pod
        itself helps."""


class QueueSortPlugin(_TwoForms):
    """Orders the pods in activeQ. Exactly one QueueSort plugin is active, the same in all profiles.

    Implement `sort_key`, or `less` if the order cannot be expressed as a key.
    """

    _forms = ("less", "sort_key")

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Whether `first` is scheduled before `second`."""
        key: bool = self.sort_key(first) < self.sort_key(second)
        return key

    def sort_key(self, queued: QueuedPod) -> Any:
        """A value whose `<` gives the same order as `less`, for speed. None: no key."""
        return None


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter activeQ (KEP-3521). It must be quick and have no side effects."""

    gates_only_with: ClassVar[Collection[str]] = ()
    """Fields of a pod, such as "spec.scheduling_gates", that a gated pod must have: if all of them are empty,
    the plugin is not called. Not set: it is called for every pod. A class that overrides `pre_enqueue` needs
    its own value."""

    @abc.abstractmethod
    def pre_enqueue(self, pod: Pod) -> MaybeStatus:
        """Anything but success gates the pod until it changes, or the hint of a registered event returns
        Queue."""


class PreFilterResult(NamedTuple):
    """A successful PreFilter result that narrows the search to some nodes. None: all nodes."""

    node_names: frozenset[str] | None = None
    """The names of the only nodes to evaluate; None: all."""


class PreFilterPlugin(Plugin):
    """Evaluates the pod once per cycle, before any node."""

    @abc.abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Prepare data for Filter. Skip: do not call this plugin's Filter; a rejection ends the search."""


class PreFilterExtensions(PreFilterPlugin):
    """Updates PreFilter data in a what-if: called when pods are added or removed before Filter runs again."""

    @abc.abstractmethod
    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> MaybeStatus:
        """Update the data: `added` now counts on `node`."""

    @abc.abstractmethod
    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> MaybeStatus:
        """Update the data: `removed` no longer counts on `node`."""


class FilterPlugin(_TwoForms):
    """Rules out nodes.

    Implement `filter` (one node) or `filter_nodes` (all nodes of a view at once). If you implement both,
    `filter` is used for small views; the two must agree.
    """

    _forms = ("filter", "filter_nodes")

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> MaybeStatus:
        """Anything but success rules the node out; later plugins are not called for it."""
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        """The verdict on every node of the view; None: all pass. Evaluate only the view's rows."""
        raise NotImplementedError


class PostFilterResult(NamedTuple):
    """The result of PostFilter: the pod's nominated node."""

    nominated_node: str
    """The node's name; "" clears an earlier nomination."""


class PostFilterPlugin(Plugin):
    """Called when no node is feasible, to make the pod schedulable, for example by preemption."""

    @abc.abstractmethod
    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Make the pod schedulable. Success ends the phase; after a rejection, the next plugin runs."""

    async def post_filter_waiting(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Optional: the same in a cycle that may wait, for plugins that call extenders (`handle.extenders`).

        Other pods are scheduled meanwhile: after an `await`, earlier results may be outdated.
        """
        return self.post_filter(state, pod, diagnosis)

    def follows_verdicts(self, info: PodInfo) -> bool:
        """Optional, for plugins with a statement: whether the pod and the verdicts on the nodes alone decide
        what `post_filter` would answer now. Such a rejection holds while no verdict changes, even if pods on
        nodes do; otherwise the next such change ends it.
        """
        return False


class PreScorePlugin(Plugin):
    """Prepares the scoring of feasible nodes."""

    @abc.abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> MaybeStatus:
        """Prepare data for Score. Skip: do not call this plugin's Score; any failure aborts the cycle."""


class ScorePlugin(_TwoForms):
    """Ranks nodes. Implement `score` (one node) or `score_nodes`; normalized scores are 0 to 100."""

    _forms = ("score", "score_nodes")

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int | Status:
        """The score of one node, an integer; a status that is not success aborts the cycle."""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores | Status:
        """The scores of a view, one int64 per node; `SKIP`: zero for all of them."""
        raise NotImplementedError

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Scores) -> Scores | Status | None:
        """Optional: scale this plugin's scores to 0 to 100. None: they are in this range already."""
        return None


class ReservePlugin(Plugin):
    """Keeps state about pods that are about to be bound."""

    @abc.abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> MaybeStatus:
        """Record the reservation. If any plugin fails here or later, `unreserve` of all plugins is called."""

    @abc.abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Remove the reservation. Must be idempotent, and work even if this plugin's `reserve` never ran."""


class PermitResult(NamedTuple):
    """The answer of Permit with a timeout: a Wait that is not approved in time becomes a rejection."""

    status: Status
    """Success, Wait, or a rejection."""
    timeout_seconds: float = 0.0
    """The timeout of a Wait."""

    @classmethod
    def wait(cls, timeout_seconds: float, *reasons: str) -> PermitResult:
        """Hold the pod for at most this time."""
        return cls(Status.wait(*reasons), timeout_seconds)


class PermitPlugin(Plugin):
    """Approves, rejects or delays the binding of a pod that has a node."""

    @abc.abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult | Status | None:
        """Success approves, a rejection rejects, and `PermitResult.wait` holds the pod until a plugin
        decides."""


class PreBindPlugin(Plugin):
    """Does work that must be finished before the pod is bound, such as attaching a volume."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> MaybeStatus:
        """Optional: return Skip, early and without side effects, if there is nothing to do for this pod."""
        return None

    @abc.abstractmethod
    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> MaybeAsyncStatus:
        """Do the work. Anything but success: the pod is not bound and returns to the queue."""


class BindPlugin(Plugin):
    """Binds the pod. Plugins run in order until one does not return Skip."""

    @abc.abstractmethod
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> MaybeAsyncStatus:
        """Bind the pod through the API; Skip leaves it to the next plugin."""

    def bind_nowait(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> asyncio.Future[Status] | asyncio.Future[None] | None:
        """Optional: start the binding on the event loop, without a task; None: call `bind` instead.

        The future returns what `bind` would return, except Skip. If it fails with AnswerLostError, it is
        unknown whether the pod was bound, and `bind` is called to find out. While hundreds of these are in
        flight, no pod is placed, so use `bind` for slow work.
        """
        return None


class PostBindPlugin(Plugin):
    """Runs after a pod was bound."""

    @abc.abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """The pod is bound; the result cannot be changed any more."""


class PlacementCandidate(NamedTuple):
    """A part of the cluster on which a whole pod group may be placed."""

    name: str
    """The name in messages: the topology domain; "" for the whole cluster."""
    nodes: Nodes
    """The nodes, in the order in which they are tried."""


class PlacementGeneratePlugin(Plugin):
    """Generates the parts of the cluster on which a pod group may be placed. At most one per profile."""

    @abc.abstractmethod
    def generate_placements(
        self, state: CycleState, group: str, nodes: Nodes
    ) -> Sequence[PlacementCandidate] | Status:
        """The candidates among `nodes`; each is tried for the group `namespace/name`."""


class ProposedPlacement(NamedTuple):
    """A candidate on which the group fits, with the nodes of its pods."""

    candidate: PlacementCandidate
    """The part of the cluster."""
    pods: Sequence[PodInfo]
    """The pods that have a node in this candidate, with the node."""


class PlacementScorePlugin(Plugin):
    """Ranks the candidates on which the group fits; normalized scores are 0 to 100."""

    @abc.abstractmethod
    def score_placement(self, state: CycleState, group: str, proposed: ProposedPlacement) -> int | Status:
        """The score of a candidate, an integer; a status that is not success ends the group's attempt."""

    def normalize_placement_scores(
        self, state: CycleState, group: str, scores: Sequence[int]
    ) -> Sequence[int] | Status | None:
        """Optional: scale this plugin's scores to 0 to 100. None: they are in this range already."""
        return None


class PodGroupPostFilterPlugin(Plugin):
    """Called when a pod group does not fit as a whole, to preempt for it (WorkloadAwarePreemption)."""

    @abc.abstractmethod
    def post_filter_group(
        self,
        group: str,
        pods: Sequence[PodInfo],
        what_if: LoggedWhatIf,
        try_again: Callable[[], Status],
    ) -> MaybeStatus:
        """Change the cluster in `what_if` and call `try_again`; success: victims are being evicted."""


class ExtensionPoint(NamedTuple):
    """A row of the table of extension points, which configuration, profiles, metrics and checks use."""

    key: str
    """The name in configuration files."""
    interface: type[Plugin]
    answers: frozenset[Code]
    """The codes that a plugin may return, in addition to Success and Error."""

    @property
    def label(self) -> str:
        """The name in metrics and messages."""
        return self.key[:1].upper() + self.key[1:]

    @property
    def attribute(self) -> str:
        """The name in code: the field of a `Profile`."""
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in self.key)


_NOTHING_ELSE: Final = frozenset[Code]()
_REJECTIONS: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})

EXTENSION_POINTS: Final[Sequence[ExtensionPoint]] = (
    ExtensionPoint("preEnqueue", PreEnqueuePlugin, _REJECTIONS),
    ExtensionPoint("queueSort", QueueSortPlugin, _NOTHING_ELSE),
    ExtensionPoint("preFilter", PreFilterPlugin, _REJECTIONS | {Code.SKIP}),
    ExtensionPoint("filter", FilterPlugin, _REJECTIONS),
    ExtensionPoint("postFilter", PostFilterPlugin, _REJECTIONS),
    ExtensionPoint("preScore", PreScorePlugin, frozenset({Code.SKIP})),
    ExtensionPoint("score", ScorePlugin, _NOTHING_ELSE),
    ExtensionPoint("reserve", ReservePlugin, _REJECTIONS),
    ExtensionPoint("permit", PermitPlugin, _REJECTIONS | {Code.WAIT}),
    ExtensionPoint("preBind", PreBindPlugin, _REJECTIONS),
    ExtensionPoint("bind", BindPlugin, _REJECTIONS | {Code.SKIP}),
    ExtensionPoint("postBind", PostBindPlugin, _NOTHING_ELSE),
    ExtensionPoint("placementGenerate", PlacementGeneratePlugin, _REJECTIONS),
    ExtensionPoint("placementScore", PlacementScorePlugin, _NOTHING_ELSE),
)
"""All extension points in the order in which a pod passes them; those of pod groups last."""


def points_of(plugin: type[Plugin]) -> tuple[str, ...]:
    """The keys of the extension points that a plugin class implements."""
    return tuple(point.key for point in EXTENSION_POINTS if issubclass(plugin, point.interface))
