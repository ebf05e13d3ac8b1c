"""The extension points: one small abstract class each, the contract in its docstring.

A plugin is a class that lists the points it serves as its bases and is constructed with its arguments
and a `Handle`. A missing method fails at construction. Where a method returns a status, `None` means
success. Points up to Permit, and Unreserve and PostBind, are synchronous and run on the owner of all
state; `pre_bind` and `bind` may be plain or `async`.
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
    """Base of all plugins. `name` is what configuration files call it."""

    name: ClassVar[str]
    """What configuration files, messages and metrics call the plugin."""
    args_type: ClassVar[type | None] = None
    """A msgspec struct that the plugin's `pluginConfig` arguments are checked against; None: a plain dict."""
    inputs: Inputs | None = None
    """What its answers depend on; of the class, or set when it is made. None: it is asked every time."""

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:  # noqa: B027 - optional
        """`args` are the plugin's arguments from the configuration; `handle` is how it reaches the rest.

        A plugin that needs them says so: `def __init__(self, args: MyArgs, handle: Handle) -> None`.
        """

    def start(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: begin work, once, before the first pod arrives.

        It runs when the scheduler starts, or before a reload puts the plugin in force. What it raises ends
        the start of the scheduler, or refuses the reload.
        """
        return None

    def close(self) -> Awaitable[None] | None:
        """Optional, plain or `async`: release what `start` took, once; nothing more is called.

        It runs when the scheduler ends, or after a reload has replaced the plugin and the pods in flight that
        use it are done. Tasks that the constructor or `start` spawned are cancelled afterwards. What it
        raises is logged.
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
    """A point that can be written in two ways, of which one is enough."""

    _forms: ClassVar[tuple[str, str]]

    @classmethod
    def _is_implemented(cls, plugin: type[Plugin]) -> bool:
        return any(getattr(plugin, form) is not getattr(cls, form) for form in cls._forms)


class EnqueueExtensions(Plugin):
    """Says which cluster events may make a pod schedulable that this plugin rejected."""

    @abc.abstractmethod
    def events_to_register(self) -> Iterable[EventWithHint]:
        """The events, each with a hint function. No event at all: only the pod's own update helps."""


class QueueSortPlugin(_TwoForms):
    """Orders the pods that are ready. Exactly one is active, the same in all profiles.

    Write `sort_key`, or `less` where no key can express the order.
    """

    _forms = ("less", "sort_key")

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Whether `first` is to be scheduled before `second`."""
        key: bool = self.sort_key(first) < self.sort_key(second)
        return key

    def sort_key(self, queued: QueuedPod) -> Any:
        """A value whose `<` says the same as `less`; spares the queue many calls. None: no key."""
        return None


class PreEnqueuePlugin(Plugin):
    """Decides whether a pod may enter the active queue at all (KEP-3521). Quick, and without effects."""

    gates_only_with: ClassVar[Collection[str]] = ()
    """Fields of a pod, such as "spec.scheduling_gates": the plugin need not be asked about a pod in which all
    of them are empty, as it would not refuse it. None given: it is asked about every pod. A class that
    overrides `pre_enqueue` states its own."""

    @abc.abstractmethod
    def pre_enqueue(self, pod: Pod) -> MaybeStatus:
        """Anything but success keeps the pod gated until it changes or a registered event hints Queue."""


class PreFilterResult(NamedTuple):
    """Success of PreFilter that narrows the search: only these nodes are filtered. None: all nodes."""

    node_names: frozenset[str] | None = None
    """The only nodes to look at; None: all."""


class PreFilterPlugin(Plugin):
    """Looks at the pod once per cycle, before the nodes."""

    @abc.abstractmethod
    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> PreFilterResult | Status | None:
        """Prepare data for Filter; Skip spares this plugin's Filter; a rejection ends the search."""


class PreFilterExtensions(PreFilterPlugin):
    """PreFilter data that can follow a what-if: pods are added or removed before Filter is asked again."""

    @abc.abstractmethod
    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeRow) -> MaybeStatus:
        """`added` is now counted on `node`."""

    @abc.abstractmethod
    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeRow) -> MaybeStatus:
        """`removed` is no longer counted on `node`."""


class FilterPlugin(_TwoForms):
    """Rules out nodes. Write `filter` (one node) or `filter_nodes` (all nodes of a view at once).

    If you write both, `filter` is used for small views; the two must agree.
    """

    _forms = ("filter", "filter_nodes")

    def filter(self, state: CycleState, pod: Pod, node: NodeRow) -> MaybeStatus:
        """Not success: the node is out, and later plugins are not asked about it."""
        raise NotImplementedError

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdict | None:
        """The verdict on every node of the view; None: all pass. Never look beyond the view's rows."""
        raise NotImplementedError


class PostFilterResult(NamedTuple):
    """What PostFilter achieved: the node the pod is nominated for; "" clears an earlier nomination."""

    nominated_node: str
    """The node's name; "" clears an earlier nomination."""


class PostFilterPlugin(Plugin):
    """Called when no node passed, to make room (preemption)."""

    @abc.abstractmethod
    def post_filter(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Success ends the phase; a rejection lets the next PostFilter plugin try."""

    async def post_filter_waiting(
        self, state: CycleState, pod: Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status | None]:
        """Optional: the same in a cycle that may wait, for plugins that call extenders (`handle.extenders`).

        Others are scheduled meanwhile: what was found before an `await` may be true no longer after it.
        """
        return self.post_filter(state, pod, diagnosis)

    def follows_verdicts(self, info: PodInfo) -> bool:
        """Optional, for plugins with a statement: whether the pod and the verdicts on the nodes alone decide
        what `post_filter` would answer now. Such a rejection holds while no verdict changes, even if pods on
        nodes do; otherwise the next such change ends it.
        """
        return False


class PreScorePlugin(Plugin):
    """Prepares scoring of the nodes that passed; Skip spares this plugin's Score."""

    @abc.abstractmethod
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> MaybeStatus:
        """Prepare data for Score; anything but success or Skip aborts the cycle."""


class ScorePlugin(_TwoForms):
    """Ranks nodes. Write `score` (one node) or `score_nodes`; after normalising, 0 to 100."""

    _forms = ("score", "score_nodes")

    def score(self, state: CycleState, pod: Pod, node: NodeRow) -> int | Status:
        """A whole number; or a status that is not success, which aborts the cycle."""
        raise NotImplementedError

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Scores | Status:
        """One int64 per node of the view; `SKIP`: nothing for any of them."""
        raise NotImplementedError

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Scores) -> Scores | Status | None:
        """Optional: bring this plugin's own scores into 0 to 100. None: they are already."""
        return None


class ReservePlugin(Plugin):
    """Keeps state about pods that are about to be bound."""

    @abc.abstractmethod
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> MaybeStatus:
        """Note the reservation. If any plugin fails here or later, `unreserve` of all is called."""

    @abc.abstractmethod
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Take the reservation back. Idempotent; also called when this plugin's reserve never ran."""


class PermitResult(NamedTuple):
    """Permit's answer with a time limit: when a Wait is not approved in time it becomes a denial."""

    status: Status
    """Success, Wait, or a rejection."""
    timeout_seconds: float = 0.0
    """How long to wait at most; only for Wait."""

    @classmethod
    def wait(cls, timeout_seconds: float, *reasons: str) -> PermitResult:
        """Hold the pod for so long at most."""
        return cls(Status.wait(*reasons), timeout_seconds)


class PermitPlugin(Plugin):
    """Approves, denies or delays the binding of a pod that has its node."""

    @abc.abstractmethod
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> PermitResult | Status | None:
        """Success approves; a rejection denies; `PermitResult.wait` holds the pod until a plugin decides."""


class PreBindPlugin(Plugin):
    """Work that must be done before the pod is bound, such as attaching a volume."""

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> MaybeStatus:
        """Optional: Skip says early, and without effect, that there is nothing to do for this pod."""
        return None

    @abc.abstractmethod
    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> MaybeAsyncStatus:
        """Not success: the pod is not bound and returns to the queue."""


class BindPlugin(Plugin):
    """Binds the pod. Plugins are asked in order until one does not Skip."""

    @abc.abstractmethod
    def bind(self, state: CycleState, pod: Pod, node_name: str) -> MaybeAsyncStatus:
        """Bind the pod through the API; Skip leaves it to the next bind plugin."""

    def bind_nowait(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> asyncio.Future[Status] | asyncio.Future[None] | None:
        """Optional: begin to bind on the event loop, without a task; None leaves it to `bind`.

        The future brings what `bind` would answer, but not Skip. One that fails with AnswerLostError leaves
        open whether the pod was bound: `bind` is asked to find out. While hundreds of them are under way no
        pod is placed: what may take long belongs into `bind`.
        """
        return None


class PostBindPlugin(Plugin):
    """Runs after a pod was bound."""

    @abc.abstractmethod
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """The pod is bound; nothing can be changed any more."""


class PlacementCandidate(NamedTuple):
    """A part of the cluster that a whole pod group may go to."""

    name: str
    """What it is called in messages: the topology domain; "" for the whole cluster."""
    nodes: Nodes
    """Its nodes, in the order they are tried."""


class PlacementGeneratePlugin(Plugin):
    """Says which parts of the cluster a pod group may go to. At most one in a profile."""

    @abc.abstractmethod
    def generate_placements(
        self, state: CycleState, group: str, nodes: Nodes
    ) -> Sequence[PlacementCandidate] | Status:
        """The candidates among `nodes`, each of which is tried for the group `namespace/name`."""


class ProposedPlacement(NamedTuple):
    """A candidate that takes the group, and where in it its pods would go."""

    candidate: PlacementCandidate
    """The part of the cluster."""
    pods: Sequence[PodInfo]
    """The pods that have a node there, with it."""


class PlacementScorePlugin(Plugin):
    """Ranks candidates that take the group; after normalising, 0 to 100."""

    @abc.abstractmethod
    def score_placement(self, state: CycleState, group: str, proposed: ProposedPlacement) -> int | Status:
        """A whole number; or a status that is not success, which ends the group's attempt."""

    def normalize_placement_scores(
        self, state: CycleState, group: str, scores: Sequence[int]
    ) -> Sequence[int] | Status | None:
        """Optional: bring this plugin's own scores into 0 to 100. None: they are already."""
        return None


class PodGroupPostFilterPlugin(Plugin):
    """Called when a pod group as a whole does not fit, to make room for it (WorkloadAwarePreemption)."""

    @abc.abstractmethod
    def post_filter_group(
        self,
        group: str,
        pods: Sequence[PodInfo],
        what_if: LoggedWhatIf,
        try_again: Callable[[], Status],
    ) -> MaybeStatus:
        """Change the cluster in `what_if` and `try_again`; success: victims are being evicted."""


class ExtensionPoint(NamedTuple):
    """One row of the table of points, from which configuration, profiles, metrics and checks are made."""

    key: str
    """Its name in configuration files."""
    interface: type[Plugin]
    answers: frozenset[Code]
    """Which codes besides Success and Error a plugin may answer."""

    @property
    def label(self) -> str:
        """Its name in metrics and messages."""
        return self.key[:1].upper() + self.key[1:]

    @property
    def attribute(self) -> str:
        """Its name in code: the field of a `Profile`."""
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
"""In the order a pod meets them; those of pod groups last."""


def points_of(plugin: type[Plugin]) -> tuple[str, ...]:
    """The keys of the extension points a plugin class serves."""
    return tuple(point.key for point in EXTENSION_POINTS if issubclass(plugin, point.interface))
