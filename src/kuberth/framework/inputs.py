"""A plugin's statement of what its answers depend on, and the signatures of pods that follow from it.

In: an `Inputs` value, complete or absent. Out: the same value, validated; from it, plans, preemption and the
queue determine when an answer for one pod also applies to another. A plugin without a statement is called
every time. A signature consists of the fields of a pod that plugins state: it is equal for pods that agree in
all of them, and short even for large pods.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from kuberth.api.core import Pod
from kuberth.cluster.pod_info import PodInfo
from kuberth.cluster.selected_labels import SelectedLabels
from kuberth.errors import ConfigError

if TYPE_CHECKING:
    from kuberth.framework.extension_points import Plugin


class DependsOn(enum.Enum):
    """What an answer depends on besides the stated fields of the pod."""

    POD = "pod"
    """Only the pod."""
    NODE_OBJECT = "node object"
    """Also the node's own object."""
    REQUESTS = "requests"
    """Also the number of pods on that node and the sums of their requests: `pod_count`, `requested`."""
    NODE = "node"
    """Also everything about the pods on that node."""
    CLUSTER = "cluster"
    """Also other nodes, the pods on them and nominations."""
    ANYTHING = "anything"
    """Also other kinds of objects, or the plugin's own state."""

    @property
    def follows_pods(self) -> bool:
        """Whether adding a pod to the node, or removing one, may change the answer."""
        return self in (DependsOn.REQUESTS, DependsOn.NODE)

    @property
    def spans_nodes(self) -> bool:
        """Whether a change of another node may change the answer about a node."""
        return self in (DependsOn.CLUSTER, DependsOn.ANYTHING)


class Versioned(Protocol):
    """An object whose `version` grows whenever it changes: a store's `changes`, `cluster.terms`."""

    @property
    def version(self) -> int:
        """A number that differs between any two states."""
        ...


class Idle(NamedTuple):
    """When a plugin ignores a pod although the pod has fields of the plugin's `only_with`."""

    fields: Collection[str]
    """The fields of the pod that `is_idle` reads. It may also check whether those in `only_with` are empty.
    """
    is_idle: Callable[[PodInfo], bool]
    """Returns True if PreFilter would skip this pod and all equal ones."""
    versions: Collection[Versioned] = ()
    """What the result depends on besides the pod: `is_idle` is called again when one of these versions has
    grown."""


class Inputs:
    """States what a plugin's answers depend on, for all its extension points and hints.

    Pods that agree in the stated fields share answers until the rest of the statement changes. The framework
    checks statements: tests can record what a plugin reads (`kuberth.testing.assert_reads_only`), and a
    sample of all cycles is evaluated a second time without reused answers.
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
        """Each of the five phases that the plugin implements must be stated, and no other."""
        self.only_with = frozenset(only_with)
        """Fields that the plugin acts on: if all of them are empty in a pod, the plugin is not called for it,
        from PreFilter to PreBind. None: it is called for every pod."""
        self.idle = idle
        """Further pods that the plugin ignores, so that it is not called for them either."""
        self.pod = frozenset(pod) | self.only_with | frozenset(getattr(idle, "fields", ()))
        """The fields of a pod that PreFilter, Filter, PostFilter, PreScore, Score, PreEnqueue and the hints
        read: attributes of `Pod`, such as "spec.tolerations", or of `PodInfo`, such as "info.priority"."""
        self.pre_filter = pre_filter
        """What PreFilter's answer, and the data that it writes for Filter, depend on: POD or ANYTHING."""
        self.filter = filter
        """What the verdict on a node depends on."""
        self.post_filter = post_filter
        """What the result "PostFilter can do nothing" depends on. If PreFilter depends on ANYTHING, this
        applies to pods that it skips; for these, PostFilter must not depend on the pod."""
        self.pre_score = pre_score
        """What PreScore's answer, and the data that it writes for Score, depend on: POD or ANYTHING."""
        self.score = score
        """What the raw score of a node depends on."""
        self.labels = labels
        """The selectors to which alone the plugin compares "metadata.labels":
        `handle.cluster.selected_labels`. Pods that match the same selectors are then equal. None: pods with
        different labels are different."""
        self.versions = tuple(versions)
        """Other objects on which answers depend that are not stated as ANYTHING: answers are invalid when one
        of these versions has grown."""

    @property
    def signed_fields(self) -> frozenset[str]:
        """The stated fields, except labels of which only selected ones count."""
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
"""Former attributes for parts of this statement, and what to write instead."""

Signer = Callable[[PodInfo], bytes | None]
"""Computes a pod's signature from some of its fields; None if a value cannot be signed."""


def checked_inputs(plugin: Plugin, phases: Iterable[str]) -> Inputs | None:
    """The plugin's statement; None if it has none; ConfigError if it is incomplete.

    `phases` are those that the plugin implements.
    """
    for name, instead in _FORMER.items():
        if hasattr(plugin, name):
            raise ConfigError(
                f"plugin {plugin.name!r} has an attribute {name!r}, which has no effect any more; "
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
                f"plugin {plugin.name!r}: its `inputs` do not state what {phase} depends on; add "
                f"{phase}=DependsOn.…, or DependsOn.ANYTHING to be called every time"
            )
        if phase not in served and stated is not None:
            raise ConfigError(
                f"plugin {plugin.name!r}: its `inputs` state {phase}, which it does not implement"
            )
        if phase in _PREPARING and stated not in (None, DependsOn.POD, DependsOn.ANYTHING):
            raise ConfigError(
                f"plugin {plugin.name!r}: {phase} does not evaluate nodes, so its `inputs` can only "
                "state it as DependsOn.POD or DependsOn.ANYTHING"
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
                "integer `version`"
            )
    return inputs


def values_of(plugin: str, fields: Iterable[str]) -> Callable[[PodInfo], Any]:
    """Returns these fields of a pod, in the order of their names."""
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


_LONG: Final = 512
"""Encodings of this many bytes or more are replaced by a digest."""

_MAX_DIGESTS: Final = 16
"""The number of digests kept with a pod; older ones are dropped."""


def _as_dict(mapping: object) -> dict[object, object]:
    if isinstance(mapping, Mapping):  # such as the read-only ones of a pod's requests
        return dict(mapping)
    raise TypeError(f"{type(mapping).__name__} cannot be signed")


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_as_dict).encode


def signer(
    fields: Iterable[str],
    *,
    presence: Iterable[str] = (),
    labels: SelectedLabels | None = None,
    plugin: str = "",
) -> Signer:
    """A function that signs pods by these fields, which a plugin states; ConfigError for unknown fields.

    Of the fields in `presence`, only whether they are empty counts. Of the pod's labels, only those that
    `labels` selects count; the caller refreshes `labels`, and when its version grows, all signatures change.
    """
    values, present = values_of(plugin, fields), values_of(plugin, presence)

    def sign(info: PodInfo) -> bytes | None:
        version = 0 if labels is None else labels.version
        if info.digests is not None and (known := info.digests.get(sign)) is not None and known[0] == version:
            return known[1]
        seen = None
        if labels is not None:
            seen = labels.of(info)
            version = labels.version  # the pod's own selectors may be new
        try:
            encoded = _encode((values(info), list(map(bool, present(info))), seen, version))
        except (OverflowError, TypeError):  # an integer beyond 64 bits, which API servers reject
            return None
        if len(encoded) < _LONG:
            return encoded
        if info.digests is None or len(info.digests) >= _MAX_DIGESTS:
            info.digests = {}
        digest = sha256(encoded).digest()
        info.digests[sign] = version, digest
        return digest

    return sign
