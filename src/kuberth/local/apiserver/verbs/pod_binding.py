"""Assigns a pod to a node.

In: a pod and a Binding. Out: the assigned pod, or an error as in upstream.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.conditions import with_condition
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.refusals import conflict, invalid
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.metadata_validation import not_supported, required
from kuberth.local.apiserver.verbs.bodies import decode

_ROW: Final = ServedResource("", "v1", "Binding", "bindings", schema="core.v1.Binding")
_PODS: Final = ServedResource("", "v1", "Pod", "pods")
_POD_BINDING: Final = ServedResource("", "v1", "Binding", "pods/binding")


def read_binding(body: Any) -> Obj:
    """A Binding of the right shape and content; 400 or 422 otherwise."""
    found = decode(_ROW, body)
    target = found.get("target") or {}
    causes = []
    if target.get("kind", "") not in ("", "Node"):
        causes.append(not_supported("target.kind", target["kind"], ["Node", "<empty>"]))
    if not target.get("name"):
        causes.append(required("target.name"))
    if causes:
        raise invalid(_ROW, name_of(found), causes)
    return found


def bound_pod(pod: Obj, binding: Obj, *, now: str, gates_hold: bool = True) -> Obj:
    """The pod with its node and the condition PodScheduled.

    `gates_hold` is off with the feature gate: pods with scheduling gates from before can then be bound.
    """
    name, wanted, metadata = name_of(pod), binding.get("metadata", {}), pod["metadata"]
    for field, title in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != metadata[field]:
            why = f"Precondition failed: {title} in precondition: {wanted[field]}, {title} in object meta: "
            raise conflict(_PODS, name, why + str(metadata[field]))
    if metadata.get("deletionTimestamp"):
        raise conflict(_POD_BINDING, name, f"pod {name} is being deleted, cannot be assigned to a host")
    spec = pod.get("spec", {})
    if spec.get("nodeName"):
        raise conflict(_POD_BINDING, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if gates_hold and spec.get("schedulingGates"):
        raise conflict(_POD_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
    new_metadata = dict(metadata)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            new_metadata[field] = {**metadata.get(field, {}), **wanted[field]}
    status = with_condition(pod.get("status", {}), {"type": "PodScheduled", "status": "True"}, now=now)
    # A nomination is obsolete now.
    status.pop("nominatedNodeName", None)
    return {
        **pod,
        "metadata": new_metadata,
        "spec": {**spec, "nodeName": binding["target"]["name"]},
        "status": status,
    }
