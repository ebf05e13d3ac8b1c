"""Admission of pods by other objects: their service account and their runtime class.

In: a new pod, the state around it. Out: the pod, completed in place, or a 403 in upstream's words.
"""

from __future__ import annotations

from typing import Final

from kuberth.local.apiserver.objects import Obj, make_key, name_of, namespace_of
from kuberth.local.apiserver.refusals import forbidden
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.write_context import WriteContext

ACCOUNTS: Final = "serviceaccounts"
DEFAULT_ACCOUNT: Final = "default"
_PODS: Final = ServedResource("", "v1", "Pod", "pods")
RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"
MIRROR: Final = "kubernetes.io/config.mirror"


def set_account(pod: Obj, context: WriteContext) -> None:
    """Set the pod's service account and the pull secrets of that account."""
    if MIRROR in pod["metadata"].get("annotations", {}):
        return
    spec, namespace = pod["spec"], namespace_of(pod)
    name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = context.store.latest(ACCOUNTS, make_key(namespace, name))
    if account is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(_PODS, name_of(pod), why)
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]


def set_runtime_class(pod: Obj, context: WriteContext) -> None:
    """Set the overhead, node selector and tolerations of the pod's runtime class."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName", "")
    found = context.store.latest(RUNTIME_CLASSES, name) if name else {}
    if found is None:
        raise forbidden(_PODS, name_of(pod), f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed", {})
    if spec.get("overhead") and not overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(_PODS, name_of(pod), why)
    if overhead:
        if spec.get("overhead", overhead) != overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden(_PODS, name_of(pod), why)
        spec["overhead"] = dict(overhead)
    _narrow(pod, found.get("scheduling") or {})


def _narrow(pod: Obj, scheduling: Obj) -> None:
    spec = pod["spec"]
    selector = dict(spec.get("nodeSelector", {}))
    for key, value in scheduling.get("nodeSelector", {}).items():
        if selector.get(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            why += f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            raise forbidden(_PODS, name_of(pod), why)
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    present = spec.get("tolerations", [])
    more = [dict(each) for each in scheduling.get("tolerations", ()) if each not in present]
    if more:
        spec["tolerations"] = [*present, *more]
