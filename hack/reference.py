"""`python -m hack.reference`: write docs/reference.md, what a plugin meets, from the docstrings.

In: the source, and the table of what belongs on the page (`SECTIONS`). Out: the page, as text. A name without
a description is an error, so that the page never has a hole; a test compares the page with what this makes.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import griffe
import msgspec

from kuberth.api.core import Node, Pod
from kuberth.api.meta import ObjectMeta
from kuberth.framework.extension_points import EXTENSION_POINTS

ROOT: Final = Path(__file__).parents[1]
FIELDS: Final = "Fields of pods and nodes"
"""The section of structs, which have no descriptions of their own."""
PAGE: Final = ROOT / "docs" / "reference.md"


@dataclass(frozen=True)
class Entry:
    """A name to describe. `module` is where users import it from."""

    module: str
    name: str
    omit: frozenset[str] = frozenset()
    """Members that are not for readers of this page."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Descriptions of members whose meaning is their name, and that have no docstring."""


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    entries: tuple[Entry, ...]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def of(module: str, *names: str) -> tuple[Entry, ...]:
    return tuple(Entry(module, name) for name in names)


_WRITING: Final = words(
    "set_node remove_node assume_pod forget_pod add_pod update_pod remove_pod put take set_namespace "
    "reorder set_amounts settle"
)
"""Methods of the table that only its owner calls."""
_MEMBERSHIP: Final = words("arrive assume forget assign leave begin_attempt end_attempt")

SIMULATION_NAMES: Final = (
    *("Experiment", "Policy", "nodes_of", "read_cluster", "ClusterState", "FixedWorkload"),
    *("GeneratedWorkload", "Workload", "read_workload", "PlannedWorkload", "Arrival", "Mix", "DrawnClass"),
    *("Outcome", "Table", "StoryLine", "Records", "PodRecord", "NodeRecord", "Waits", "PodCounts"),
    *("Attempts", "Reason", "Sample", "Comparison", "Figure", "compare", "interval"),
    *("as_json", "as_csv", "as_html", "write_plots", "Scenario", "simulate"),
    *("Environment", "AgentStep", "Observation", "Choose", "choosing_policy", "gymnasium_environment"),
    *("Tuning", "Objective", "Tuned", "TunedConfiguration", "TuningProgress"),
    *("NodePolicy", "Autoscaler", "SpotInterruptions", "ClusterNow", "NodeState", "AddNode", "RemoveNode"),
)
_RUN_NOTES: Final = {
    "nodes": "Nodes at the start.",
    "objects": "Other objects at the start, including pods on nodes.",
    "arrivals": "The pods that arrive.",
    "name": "The name in reports.",
    "config": "The scheduler configuration; None: the default.",
    "gates": "Feature gates.",
    "registry": "Makes the registry of all plugins.",
    "queue": "Makes the scheduling queue; None: the priority queue.",
    "has_controllers": "Whether controllers run.",
}
SIMULATION_NOTES: Final[Mapping[str, Mapping[str, str]]] = {
    "Experiment": {"cluster": "The cluster before the first arrival.", "workload": "What arrives, by seed."},
    "Policy": {"name": "The name in reports."},
    "ClusterState": _RUN_NOTES,
    "PlannedWorkload": {**_RUN_NOTES, "objects": "Objects that exist before the first arrival."},
    "Scenario": _RUN_NOTES,
    "Arrival": {
        "name": "Its name; empty: a number is made into one.",
        "priority": "Its priority.",
        "requests": "Resources of its container, as in a pod.",
        "node_selector": "Labels that its node needs.",
        "tolerations": "As in a pod.",
        "affinity": "As in a pod.",
        "spread": "`topologySpreadConstraints`, as in a pod.",
        "labels": "Its labels.",
        "gang": "The name of its gang; empty: none.",
    },
    "Mix": {"classes": "The pods to choose from.", "tenants": "Number of tenants."},
    "DrawnClass": {
        "weight": "How often such pods arrive, relative to the other classes.",
        "requests": "Resources of the container.",
        "priority": "Their priority.",
    },
    "Outcome": {
        "version": "The version of the format.",
        "name": "The name of the scenario or policy.",
        "seed": "The seed of the run.",
        "nodes": "Number of nodes at the start.",
        "pods": "Numbers of pods.",
        "waits": "Waits of all pods.",
        "waits_by_priority": "Waits by priority.",
        "waits_by_tenant": "Waits by tenant.",
        "fragmentation": "Mean of the samples.",
        "fairness": "Mean of the samples.",
        "attempts": "Scheduling attempts.",
        "attempts_wasted": "The share of attempts that ended without a node.",
        "reasons": "Why pods were rejected, most frequent first.",
        "samples": "The cluster over time.",
    },
    "Records": {"pods": "In the order of their creation.", "nodes": "In the order in which they joined."},
    "PodRecord": {
        "name": "Its name.",
        "tenant": "Its namespace.",
        "priority": "Its priority.",
        "story": "What happened to it, in order.",
    },
    "NodeRecord": {
        "name": "Its name.",
        "joined": "When it joined.",
        "left": "When it left; None: it was there at the end.",
    },
    "Waits": {
        "mean": "The mean.",
        "p50": "The median.",
        "p90": "The 90th percentile.",
        "p99": "The 99th percentile.",
        "longest": "The longest.",
    },
    "PodCounts": {
        "arrived": "Pods that were created.",
        "placed": "Pods that got a node.",
        "finished": "Pods that ran to their end.",
        "waiting": "Pods without a node at the end.",
    },
    "Attempts": {
        "scheduled": "Attempts that found a node.",
        "unschedulable": "Attempts that found none.",
        "error": "Attempts that failed.",
    },
    "Reason": {"text": "The reason, without numbers of nodes."},
    "Sample": {"at": "When.", "running": "Pods on nodes.", "waiting": "Pods without a node."},
    "Comparison": {
        "variants": "Names of the policies.",
        "seeds": "The seeds that all policies ran with.",
        "figures": "All figures of all policies.",
        "outcomes": "The outcomes of each policy, by seed.",
    },
    "Figure": {
        "name": "Which figure.",
        "variant": "Whose figure.",
        "mean": "Mean over seeds.",
        "difference_spread": "Standard deviation of the differences; 0 with a single seed.",
    },
    "Autoscaler": {"interval": "Seconds between two decisions."},
    "SpotInterruptions": {"interval": "Seconds between two decisions."},
    "ClusterNow": {"seconds": "Time since the beginning of the run."},
    "NodeState": {"node": "The node.", "pods": "Number of pods on it."},
    "AddNode": {"shape": "The shape of the node."},
    "RemoveNode": {"name": "The node."},
}
"""Descriptions of fields whose meaning is their name."""

SECTIONS: Final = (
    Section(
        "Extension points",
        "A plugin's bases are the points it serves. `None` means success wherever a status may be returned, "
        "and Error is allowed everywhere. In the signatures below, `MaybeStatus` is `Status | None`, "
        "`MaybeAsyncStatus` the same or a coroutine that returns it (a method may be `async`), and `Scores` "
        "an array of int64, one per node. What else than Success and Error a point may answer:",
        of(
            "kuberth.framework",
            "Plugin",
            *dict.fromkeys(point.interface.__name__ for point in EXTENSION_POINTS),
            "PodGroupPostFilterPlugin",
            "PreFilterExtensions",
            "EnqueueExtensions",
            "Inputs",
            "Idle",
            "DependsOn",
        ),
    ),
    Section(
        "Answers",
        "What methods of plugins return, and what PostFilter is given.",
        (
            *of("kuberth.framework", "Status", "Code", "SUCCESS", "SKIP", "PreFilterResult", "Verdict"),
            *of("kuberth.framework", "PostFilterResult", "PermitResult"),
            *of("kuberth.framework", "PlacementCandidate", "ProposedPlacement"),
            Entry("kuberth.framework", "MIN_NODE_SCORE", notes={"MIN_NODE_SCORE": "The lowest score."}),
            *of("kuberth.framework", "MAX_NODE_SCORE"),
            *of("kuberth.framework.scores", "normalized"),
            Entry(
                "kuberth.framework",
                "Diagnosis",
                omit=words("set add_block reject_all narrow record_plugins"),
            ),
            *of("kuberth.framework", "FitError"),
        ),
    ),
    Section(
        "Data of a cycle",
        "Each attempt to place a pod has a state of its own, which every point of that attempt is given.",
        (
            *of("kuberth.framework", "CycleState", "GroupAttempt", "StateKey"),
            *of("kuberth.framework.cycle_state", "Cloneable"),
        ),
    ),
    Section(
        "Nodes",
        "`filter` and `score` are given a `NodeRow`, the forms for many nodes a `Nodes`. A *row* is a node's "
        "place in the cluster table, a *position* its place in a view.",
        of("kuberth.cluster.nodes", "NodeRow", "Nodes"),
    ),
    Section(
        "The cluster table",
        "`nodes.table`, `node.table` and `handle.cluster` are the same table. Read it, never write to it: "
        "columns belong to their owner, and a column may be replaced by a longer one, so ask the table "
        "for it each time. `row` below is a node's row; a column has at least `slots` entries. `Column` is "
        "an array of int64. Amounts are whole numbers: thousandths of a core for `cpu`, bytes for `memory` "
        "and `ephemeral-storage`, units for any other resource.",
        (
            Entry("kuberth.cluster.table", "ClusterTable", omit=_WRITING),
            *of("kuberth.cluster.resource_columns", "CPU", "MEMORY", "EPHEMERAL_STORAGE", "MAX_RESOURCES"),
            Entry("kuberth.cluster.interning", "InternedColumn", omit=words("set clear grow")),
            *of("kuberth.cluster.labels", "LabelColumn", "ABSENT"),
            Entry("kuberth.cluster.images", "ImageColumn", omit=words("set")),
            Entry("kuberth.cluster.counting", "RowCounts", omit=words("add add_all of")),
            *of("kuberth.cluster.table", "PlacementObserver"),
            Entry("kuberth.cluster.what_if", "WhatIf", omit=words("undo")),
            Entry("kuberth.cluster.what_if", "LoggedWhatIf", omit=words("undo")),
            Entry("kuberth.cluster.pod_groups", "PodGroups", omit=_MEMBERSHIP),
            Entry("kuberth.cluster.pod_groups", "GroupMembers", omit=_MEMBERSHIP),
        ),
    ),
    Section(
        "Counting pods",
        "`table.terms` counts placed pods by what terms say of them, and keeps count as pods come and go: "
        "ask it instead of looping over pods.",
        (
            Entry("kuberth.cluster.terms", "Terms", omit=words("add set_namespace")),
            Entry("kuberth.cluster.terms", "Tally", omit=words("add")),
            *of("kuberth.cluster.terms", "Carried", "CarriedTerm"),
            *of("kuberth.cluster.pod_info", "PodMatcher", "AffinityTerm", "WeightedTerm", "compile_term"),
        ),
    ),
    Section(
        "Choosing nodes",
        "Each returns a mask over the positions of a view. A rule is evaluated once for each distinct value.",
        (
            *of("kuberth.cluster.selection", "everywhere", "nowhere", "has_labels", "meets_requirement"),
            *of("kuberth.cluster.selection", "meets_node_selector", "meets_term", "meets_field"),
            *of("kuberth.cluster.selection", "meets_required_affinity", "by_taints"),
            *of("kuberth.api", "compile_label_selector", "selector_from_set", "parse_selector"),
            *of("kuberth.api", "Selector"),
            *of("kuberth.api.selectors", "Requirement", "new_requirement", "required_node_affinity"),
        ),
    ),
    Section(
        "Pods",
        "A method of a plugin is given the pod itself, a struct of `kuberth.api` with the API's fields in "
        "snake_case. What scheduling derives from it is `state.pod_info`.",
        (
            *of("kuberth.cluster.pod_info", "PodInfo", "HostPort", "PodClass"),
            *of("kuberth.api", "PodRequest", "pod_requests", "pod_priority"),
            *of("kuberth.api", "find_untolerated", "toleration_tolerates"),
        ),
    ),
    Section(
        FIELDS,
        "The structs that `Pod`, `Node` and `ObjectMeta` consist of, with the Python names and types of "
        "their fields; the JSON names are the same in camelCase. Structs are frozen: "
        "`msgspec.structs.replace` makes a changed copy. A field that an object lacks has its default: an "
        "empty text, mapping or tuple, 0, False, or None where the type says so. Quantities are text: "
        "`kuberth.api.quantity.parse` reads them. Sources of volumes are in `kuberth.api.volumes`.",
        (),
    ),
    Section(
        "Cluster events and hints",
        "A plugin that rejects pods says which changes may help them. An event is a resource and an action; "
        "of several actions at once, write `Action.ADD | Action.UPDATE_NODE_LABEL`.",
        (
            *of(
                "kuberth.framework", "ClusterEvent", "Action", "Resource", "EventWithHint", "Concern", "Hint"
            ),
            *of("kuberth.framework.cluster_events", "HintFunction", "ALL_EVENTS"),
            *of("kuberth.framework.hint_objects", "expect", "before_and_after"),
        ),
    ),
    Section(
        "The handle",
        "The second argument of a plugin's constructor, and what can be reached through it.",
        (
            *of("kuberth.framework", "Handle"),
            Entry(
                "kuberth.informers.store",
                "Stores",
                omit=words("seal"),
            ),
            Entry(
                "kuberth.informers.store",
                "Store",
                omit=words("set remove"),
                notes={
                    "get": "The object of this name, None if there is none.",
                    "get_by_key": "The object of this `namespace/name`; just the name without a namespace.",
                    "keys": "The keys of all objects.",
                    "in_namespace": "The objects of one namespace.",
                    "__iter__": "All objects.",
                    "__len__": "How many there are.",
                },
            ),
            *of("kuberth.client.protocol", "Api"),
            *of("kuberth.client.writes", "Write"),
            Entry("kuberth.framework.waiting_pods", "WaitingPods", omit=words("add remove")),
            Entry("kuberth.framework.waiting_pods", "WaitingPod", omit=words("wait")),
            Entry("kuberth.framework.nominator", "Nominator", omit=words("adopt update")),
            *of("kuberth.framework.handle", "Activator", "EventRecorder", "PodEvent", "Spawner"),
            *of("kuberth.clock", "Clock"),
        ),
    ),
    Section(
        "Kinds",
        "Types of objects: the structs of `kuberth.api`, and what you register.",
        (
            *of("kuberth.api", "register_kind", "PlainObject", "Wire", "always", "KindInfo"),
            *of("kuberth.api", "decode", "convert", "encode", "to_builtins"),
        ),
    ),
    Section(
        "The queue",
        "For a queue of your own; see [queue.md](queue.md). A QueueSort plugin is given two `QueuedPod`.",
        (
            Entry(
                "kuberth.framework",
                "QueuedPod",
                omit=words("record_flush clear_flush clear_flush_flag"),
            ),
            *of("kuberth.queue", "SchedulingQueue", "QueueContext", "QueueFactory", "PreCheck", "PreEnqueue"),
            *of("kuberth.queue", "QueueObserver", "MoveCause"),
            *of(
                "kuberth.queue",
                "PriorityQueue",
                "SubQueue",
                "SubQueueFactory",
                "OrderedSubQueue",
                "sort_value_of",
            ),
            *of("kuberth.queue.fair_share", "fair_share"),
            *of("kuberth.queue.reserved_share", "ReservedShareQueue"),
        ),
    ),
    Section(
        "Evaluation",
        "Judging pods with no scheduler running; see [library.md](library.md).",
        of("kuberth.evaluation", "Evaluator", "Answer", "Preemption"),
    ),
    Section(
        "Simulation",
        "Simulating in Python; see [research.md](research.md). Times are virtual seconds after the beginning "
        "of a run. Tenants are namespaces.",
        tuple(
            Entry("kuberth.simulation", name, notes=SIMULATION_NOTES.get(name, {}))
            for name in SIMULATION_NAMES
        ),
    ),
    Section(
        "Testing",
        "For the tests of your plugins; see [testing-plugins.md](testing-plugins.md).",
        (
            *of("kuberth.testing", "make_node", "make_pod", "make_namespace", "running", "running_with"),
            *of("kuberth.testing", "profile", "World"),
            *of("kuberth.testing", "assert_keeps_contract", "check_plugin", "PluginReport", "RuleFinding"),
            *of("kuberth.testing", "RuleOutcome", "PluginTiming"),
            *of("kuberth.testing", "assert_reads_only", "ReadRecorder", "OutsideRead"),
            *of("kuberth.testing", "queue_contract", "QUEUE_CONTRACT", "QueueRule", "make_queue_context"),
            Entry(
                "kuberth.testing",
                "MemoryApi",
                omit=words("list watch get create update patch bind delete"),
            ),
            *of("kuberth.testing", "FakeClock", "run_in_virtual_time", "VirtualTimeLoop"),
        ),
    ),
)

_HEAD: Final = """\
# Reference

What a plugin meets, with every name, shape and unit. This page is made from the source by `make reference`;
[plugins.md](plugins.md) shows how to write a plugin.

"""
_WIDTH: Final = 110
_DUNDERS: Final = {
    "__iter__": "for … in",
    "__len__": "len()",
    "__contains__": "… in",
    "__getitem__": "[…]",
    "__call__": "()",
}


class UndocumentedError(Exception):
    """Names on the page have no description."""


def page() -> str:
    """The whole page; UndocumentedError names every hole at once."""
    root = griffe.load("kuberth", search_paths=[ROOT / "src"], resolve_aliases=True)
    holes: list[str] = []
    parts = [_HEAD, *(f"- [{section.title}](#{anchor(section.title)})\n" for section in SECTIONS)]
    for section in SECTIONS:
        parts.append(f"\n## {section.title}\n\n{textwrap.fill(section.text, _WIDTH)}\n")
        if section is SECTIONS[0]:
            parts.append(_points_table())
        if section.title == FIELDS:
            parts += _field_tables(Pod, Node, ObjectMeta)
        parts += [_described(entry, _find(root, entry), holes) for entry in section.entries]
    if holes:
        raise UndocumentedError(", ".join(holes))
    return "".join(parts)


def anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def _find(root: griffe.Object | griffe.Alias, entry: Entry) -> griffe.Object:
    module = root[entry.module.removeprefix("kuberth.")] if entry.module != "kuberth" else root
    member = module[entry.name]
    target = member.final_target if isinstance(member, griffe.Alias) else member
    assert isinstance(target, griffe.Object)
    return target


def _points_table() -> str:
    rows = ["\n| in configuration files | class | besides Success and Error |\n|---|---|---|\n"]
    for point in EXTENSION_POINTS:
        answers = ", ".join(code.label for code in sorted(point.answers)) or "nothing"
        name = point.interface.__name__
        rows.append(f"| `{point.key}` | [`{name}`](#{name.lower()}) | {answers} |\n")
    return "".join(rows)


def _field_tables(*roots: type[msgspec.Struct]) -> Iterator[str]:
    """A table of fields for each struct, and for the structs that its fields are made of."""
    found = dict.fromkeys(roots)
    for struct in (waiting := list(roots)):
        annotations = typing.get_type_hints(struct)
        yield f"\n### {struct.__name__}\n\n`from {struct.__module__} import {struct.__name__}`\n\n"
        yield "| field | type |\n|---|---|\n"
        for each in msgspec.structs.fields(struct):
            annotation = annotations[each.name]
            yield f"| `{each.name}` | `{_type_text(annotation)}` |\n"
            for inner in _structs_in(annotation):
                if inner not in found and inner.__module__ != "kuberth.api.volumes":
                    found[inner] = None
                    waiting.append(inner)


def _structs_in(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _structs_in(argument)


def _type_text(annotation: Any) -> str:
    """The type as a reader writes it, without modules."""
    if annotation is type(None):
        return "None"
    arguments = typing.get_args(annotation)
    if not arguments:
        return "..." if annotation is ... else str(getattr(annotation, "__name__", annotation))
    texts = [_type_text(each) for each in arguments]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return " \\| ".join(texts)
    return f"{typing.get_origin(annotation).__name__}[{', '.join(texts)}]"


def _described(entry: Entry, target: griffe.Object, holes: list[str]) -> str:
    text = f"\n### {entry.name}\n\n`from {entry.module} import {entry.name}`"
    if isinstance(target, griffe.Class):
        bases = [str(base) for base in target.bases if str(base).split("[")[0] not in _PLAIN_BASES]
        text += f" (a {', '.join(f'`{base}`' for base in bases)})" if bases else ""
    elif isinstance(target, griffe.Function):
        text += f"\n\n`{entry.name}{_signature(target)}`"
    elif isinstance(target, griffe.Attribute) and target.value is not None and len(str(target.value)) < 60:
        text += f", `{target.value}`"
    described = entry.notes.get(entry.name) or (target.docstring.value if target.docstring else "")
    if not described:
        holes.append(f"{entry.module}.{entry.name}")
    text += f"\n\n{inspect.cleandoc(described)}\n"
    if isinstance(target, griffe.Class):
        rows = list(_rows(entry, target, holes))
        if rows:
            text += "\n| | |\n|---|---|\n" + "".join(rows)
    return text


_PLAIN_BASES: Final = words(
    "abc.ABC ABC Plugin _TwoForms NamedTuple enum.Enum enum.IntEnum enum.IntFlag enum.StrEnum Protocol "
    "Generic Wire msgspec.Struct TreeHolder Mapping Exception SchedulingQueue"
)
"""Bases that say nothing new to the reader."""


def _rows(entry: Entry, target: griffe.Class, holes: list[str]) -> Iterator[str]:
    """A row for each public member, in the order of the source."""
    init = target.members.get("__init__")
    if isinstance(init, griffe.Function) and entry.name in _MADE_BY_USERS:
        described = init.docstring.value if init.docstring else "The constructor."
        yield _row(f"{entry.name}{_signature(init)}", described)
    for name, member in target.members.items():
        if isinstance(member, griffe.Alias) or name in entry.omit:
            continue
        if name.startswith("_") and name not in _DUNDERS:
            continue
        described = entry.notes.get(name) or _docstring(member)
        if not described and name in _DUNDERS:
            continue
        if not described:
            holes.append(f"{entry.module}.{entry.name}.{name}")
            continue
        yield _row(_head(name, member), described)


_MADE_BY_USERS: Final = words(
    "Plugin Status Verdict StateKey Evaluator MemoryApi FakeClock PriorityQueue OrderedSubQueue"
)
"""Classes whose objects the reader makes, and not the framework."""


def _docstring(member: griffe.Object) -> str:
    if member.docstring is not None:
        return member.docstring.value
    if isinstance(member, griffe.Function) and isinstance(member.parent, griffe.Class):
        for base in member.parent.mro():
            inherited = base.members.get(member.name)
            if isinstance(inherited, griffe.Function) and inherited.docstring is not None:
                return inherited.docstring.value
    return ""


def _head(name: str, member: griffe.Object) -> str:
    if isinstance(member, griffe.Function):
        if name in _DUNDERS:
            return _DUNDERS[name] if name != "__call__" else _signature(member)
        asynchronous = "await " if "async" in member.labels else ""
        return f"{asynchronous}{name}{_signature(member)}"
    assert isinstance(member, griffe.Attribute)
    parent = member.parent
    if isinstance(parent, griffe.Class) and _is_enum(parent):
        return name if "property" in member.labels else f"{name} = {member.value}"
    annotation = str(member.annotation or _annotation_of_value(member) or "")
    if not annotation:
        return name
    if annotation.startswith("ClassVar["):
        annotation = annotation[len("ClassVar[") : -1]
    return f"{name}: {annotation}"


def _annotation_of_value(member: griffe.Attribute) -> str | griffe.Expr | None:
    """Where the value says it: a parameter that is kept (`self.code = code`), a new object, a number."""
    value = str(member.value)
    init = member.parent.members.get("__init__") if isinstance(member.parent, griffe.Class) else None
    if isinstance(init, griffe.Function) and value in init.parameters:
        parameter = init.parameters[value]
        is_many = parameter.kind is griffe.ParameterKind.var_positional
        return f"tuple[{parameter.annotation}, ...]" if is_many else parameter.annotation
    if isinstance(member.value, griffe.ExprCall) and str(member.value.function)[:1].isupper():
        return member.value.function
    return _LITERALS.get(value)


_LITERALS: Final = {"0": "int", "False": "bool", "''": "str"}


def _is_enum(parent: griffe.Class) -> bool:
    return any(str(base).startswith("enum.") for base in parent.bases)


def _signature(function: griffe.Function) -> str:
    parameters = []
    marked = False
    stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
    for parameter in function.parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not marked:
            marked = True
            parameters.append("*")
        marked = marked or parameter.kind is griffe.ParameterKind.var_positional
        text = f"{stars.get(parameter.kind, '')}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and parameter.kind not in stars:
            text += f" = {parameter.default}"
        parameters.append(text)
    returns = "" if function.returns is None or function.name == "__init__" else f" -> {function.returns}"
    return f"({', '.join(parameters)}){returns}"


def _row(head: str, described: str) -> str:
    text = " ".join(described.split()).replace("|", "\\|")
    return f"| `{head.replace('|', chr(92) + '|')}` | {text} |\n"


if __name__ == "__main__":
    try:
        PAGE.write_text(page(), encoding="utf-8")
    except UndocumentedError as holes:
        sys.exit("these names have no description, give them docstrings: " + str(holes))
    sys.stdout.write(f"{PAGE.relative_to(ROOT)} written\n")
