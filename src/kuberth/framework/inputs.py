"""The statement of a plugin: what its answers depend on.

In: an `Inputs` value that a plugin gives whole or not at all. Out: the same value, checked, from which
plans, preemption and the filing of waiting pods work out when an answer given for one pod holds for another.
A plugin without a statement is asked every time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.errors import ConfigError

if TYPE_CHECKING:
    from kuberth.framework.extension_points import Plugin


class DependsOn(enum.Enum):
    """What an answer depends on besides the stated fields of the pod."""

    POD = "pod"
    """Nothing else: the pod alone."""
    NODE_OBJECT = "node object"
    """The node's own object."""
    REQUESTS = "requests"
    """Also the number of pods on that node and the sums of their requests: `pod_count`, `requested`."""
    NODE = "node"
    """Also anything about the pods on that node."""
    CLUSTER = "cluster"
    """Also other nodes, the pods on them and nominations."""
    ANYTHING = "anything"
    """Other kinds of objects, the plugin's own memory."""

    @property
    def follows_pods(self) -> bool:
        """Whether a pod that comes to the node or leaves it may change the answer."""
        return self in (DependsOn.REQUESTS, DependsOn.NODE)

    @property
    def spans_nodes(self) -> bool:
        """Whether an answer about a node may change with another node."""
        return self in (DependsOn.CLUSTER, DependsOn.ANYTHING)


class Versioned(Protocol):
    """Something whose `version` grows whenever it changes: a store's `changes`, `cluster.terms`."""

    @property
    def version(self) -> int:
        """Never the same for two states."""
        ...


class Idle(NamedTuple):
    """When a plugin has nothing to do with a pod although the pod has fields of the plugin's `only_with`."""

    fields: Collection[str]
    """The fields of the pod that `is_idle` reads. It may also look whether those in `only_with` are empty."""
    is_idle: Callable[[PodInfo], bool]
    """Whether the plugin has nothing to do with this pod and its equals: PreFilter would skip them."""
    versions: Collection[Versioned] = ()
    """What the answer depends on besides: it is asked for again when one of these has grown."""


class Inputs:
    """What a plugin's answers depend on: one statement for all its extension points and hints.

    Pods that agree in the stated fields get one answer for all of them, for as long as the rest of the
    statement has not changed. The framework checks statements: tests can record what a plugin reads
    (`kuberth.testing.assert_reads_only`), and a sample of all cycles is decided a second time without them.
    """

    __slots__ = (
        "filter",
        "idle",
        "labels",
        "only_with",
        "pod",
        "post_filter",
        "pre_filter",
        "pre_score",
        "score",
        "versions",
    )

    def __init__(
        self,
        pod: Iterable[str],
        *,
        pre_filter: DependsOn | None = None,
        filter: DependsOn | None = None,  # noqa: A002 - the name of the extension point
        post_filter: DependsOn | None = None,
        pre_score: DependsOn | None = None,
        score: DependsOn | None = None,
        only_with: Iterable[str] = (),
        idle: Idle | None = None,
        labels: SelectedLabels | None = None,
        versions: Iterable[Versioned] = (),
    ) -> None:
        """Every one of the five phases that the plugin serves has to be stated, and no other."""
        self.only_with = frozenset(only_with)
        """Fields without which the plugin has nothing to do: it is not asked about a pod in which all of
        them are empty, from PreFilter to PreBind. None: it is asked about every pod."""
        self.idle = idle
        """When it has nothing to do with other pods, and is not asked about them either."""
        self.pod = frozenset(pod) | self.only_with | frozenset(getattr(idle, "fields", ()))
        """The fields of a pod that PreFilter, Filter, PostFilter, PreScore, Score, PreEnqueue and the hints
        read: attributes of `Pod`, such as "spec.tolerations", or of `PodInfo`, such as "info.priority"."""
        self.pre_filter = pre_filter
        """What PreFilter's answer, and what it writes for Filter, depend on: POD or ANYTHING."""
        self.filter = filter
        """What the verdict on a node depends on."""
        self.post_filter = post_filter
        """What it depends on that PostFilter finds nothing to do. If PreFilter depends on ANYTHING, this is
        about pods that it skips; for these PostFilter must not depend on the pod."""
        self.pre_score = pre_score
        """What PreScore's answer, and what it writes for Score, depend on: POD or ANYTHING."""
        self.score = score
        """What the score of a node depends on, before it is normalized."""
        self.labels = labels
        """Where the selectors are noted with which alone the plugin compares "metadata.labels":
        `handle.cluster.selected_labels`. Pods in which they all see the same are equal. None: pods with
        different labels are different."""
        self.versions = tuple(versions)
        """What else answers depend on that are not stated as ANYTHING: they are asked again whenever the
        `version` of one of these has grown."""

    @property
    def signed_fields(self) -> frozenset[str]:
        """The stated fields without those labels of which only a part counts."""
        return self.pod if self.labels is None else self.pod - {_LABELS}

    def __repr__(self) -> str:
        phases = {name: getattr(self, name) for name in PHASES}
        stated = "".join(f", {name}={of}" for name, of in phases.items() if of is not None)
        return f"Inputs({sorted(self.pod)}{stated})"


PHASES: Final = ("pre_filter", "filter", "post_filter", "pre_score", "score")
_PREPARING: Final = ("pre_filter", "pre_score")

_DERIVED: Final = "info."
_LABELS: Final = "metadata.labels"
_ANY_POD: Final = PodInfo(Pod())

_FORMER: Final[Mapping[str, str]] = {
    "reads": "inputs = Inputs({fields of the pod}, filter=DependsOn.NODE_OBJECT, ...)",
    "hints_read": "inputs = Inputs({fields of the pod}), which covers the hints too",
    "pre_filter_depends_on": "inputs = Inputs({fields of the pod}, pre_filter=DependsOn.POD, ...)",
    "filter_depends_on": "inputs = Inputs({fields of the pod}, filter=DependsOn.NODE_OBJECT, ...)",
    "pre_score_depends_on": "inputs = Inputs({fields of the pod}, pre_score=DependsOn.POD, ...)",
    "score_depends_on": "inputs = Inputs({fields of the pod}, score=DependsOn.NODE_OBJECT, ...)",
    "tells_apart": "inputs = Inputs(..., versions=(what else the answers depend on,))",
    "keeps_out": "nothing: the gate is asked before the hints",
}
"""Attributes that stated a part of this, and what to write in their place."""

Signer = Callable[[PodInfo], bytes | None]
"""Signs pods by some of their fields; None: the pod holds something that cannot be signed."""


def checked_inputs(plugin: Plugin, phases: Iterable[str]) -> Inputs | None:
    """The plugin's statement; None if it gives none. ConfigError for half of one, naming the plugin.

    `phases` are those that the plugin serves.
    """
    for name, instead in _FORMER.items():
        if hasattr(plugin, name):
            raise ConfigError(
                f"plugin {plugin.name!r} has an attribute {name!r}, which states nothing any more; "
                f"write {instead}"
            )
    inputs = plugin.inputs
    if inputs is None:
        return None
    if not isinstance(inputs, Inputs):
        raise ConfigError(f"plugin {plugin.name!r}: its `inputs` are {inputs!r:.100}; give an Inputs or None")
    served = frozenset(phases)
    for phase in PHASES:
        stated = getattr(inputs, phase)
        if phase in served and not isinstance(stated, DependsOn):
            raise ConfigError(
                f"plugin {plugin.name!r}: its `inputs` do not say what {phase} depends on; add "
                f"{phase}=DependsOn.…, or DependsOn.ANYTHING to be asked every time"
            )
        if phase not in served and stated is not None:
            raise ConfigError(f"plugin {plugin.name!r}: its `inputs` state {phase}, which it does not serve")
        if phase in _PREPARING and stated not in (None, DependsOn.POD, DependsOn.ANYTHING):
            raise ConfigError(
                f"plugin {plugin.name!r}: {phase} comes before the nodes, so its `inputs` can state it as "
                "DependsOn.POD or DependsOn.ANYTHING only"
            )
    for field in sorted(inputs.pod):
        _path(plugin.name, field)
    if inputs.labels is not None and not isinstance(inputs.labels, SelectedLabels):
        raise ConfigError(
            f"plugin {plugin.name!r}: the `labels` of its `inputs` are {inputs.labels!r:.100}; give "
            "handle.cluster.selected_labels or None"
        )
    if inputs.idle is not None and not isinstance(inputs.idle, Idle):
        raise ConfigError(
            f"plugin {plugin.name!r}: `idle` of its `inputs` is {inputs.idle!r:.100}; give an Idle or None"
        )
    for source in (*inputs.versions, *(() if inputs.idle is None else inputs.idle.versions)):
        if not isinstance(getattr(source, "version", None), int):
            raise ConfigError(
                f"plugin {plugin.name!r}: {source!r:.100} among the `versions` of its `inputs` has no "
                "whole number `version`"
            )
    return inputs


def values_of(plugin: str, fields: Iterable[str]) -> Callable[[PodInfo], Any]:
    """Gets these fields of a pod, in the order of their names."""
    paths = sorted(_path(plugin, field) for field in fields)
    if len(paths) == 1:
        one = attrgetter(paths[0])
        return lambda info: (one(info),)
    return attrgetter(*paths) if paths else lambda _info: ()


def _path(plugin: str, field: str) -> str:
    path = field.removeprefix(_DERIVED) if field.startswith(_DERIVED) else f"pod.{field}"
    try:
        attrgetter(path)(_ANY_POD)
    except (AttributeError, TypeError):
        raise ConfigError(
            f"plugin {plugin!r}: its `inputs` name {field!r}, which pods do not have; name an attribute of "
            "Pod, such as 'spec.tolerations', or of PodInfo: 'info.priority'"
        ) from None
    return path
