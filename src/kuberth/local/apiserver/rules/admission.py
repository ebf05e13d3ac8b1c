"""Admission: what the server sets or refuses in a write: namespaces, priorities, node ports, initial status.

In: the object about to be written, the stored one for an update, the state around it. Out: the object,
completed in place, or a 403, 404 or 422 in upstream's words.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Final

from kuberth.local.apiserver.objects import (
    Obj,
    condition,
    key_of,
    make_key,
    name_of,
    namespace_of,
    newest_default,
    with_condition,
)
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.defaulting import default_tolerations, own_job_pods, qos_class
from kuberth.local.apiserver.rules.quotas import set_limit_range_defaults
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import (
    Cause,
    forbidden,
    forbidden_field,
    invalid,
    invalid_value,
    not_found,
)

SCHEDULING_GATES_GATE: Final = "PodSchedulingReadiness"
_GROUPS_GATE: Final = "GenericWorkload"
_PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
_NAMESPACES: Final = ServedResource("", "v1", "Namespace", "namespaces", namespaced=False)
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"
_INGRESS_CLASS: Final = "kubernetes.io/ingress.class"
"""The annotation in which an ingress named its class before there was a field for it."""
_NODE_RESOURCES: Final = "nodeAllocatableResourceClaimStatuses"
_SERVICE_NETWORK: Final = ipaddress.ip_network("10.96.0.0/12")
_NODE_PORTS: Final = range(30000, 32768)
ACCOUNTS: Final = "serviceaccounts"
DEFAULT_ACCOUNT: Final = "default"
RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"
MIRROR_ANNOTATION: Final = "kubernetes.io/config.mirror"


def expect_namespace(name: str, namespace: str, context: WriteContext) -> None:
    """Refuse objects in namespaces that do not exist or are terminating."""
    found = context.store.latest("namespaces", namespace)
    if found is None:
        raise not_found(_NAMESPACES, namespace)
    if found["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = Cause(
            "metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating"
        )
        raise forbidden(context.row, name, why, causes=[cause])


def prepare_pod(new: Obj, old: Obj | None, context: WriteContext) -> None:
    spec = new.setdefault("spec", {})
    if not context.gates.get(SCHEDULING_GATES_GATE, True):
        _drop_new_gates(new, old, context)
    if not context.gates.get(_GROUPS_GATE, False) and not (old or {}).get("spec", {}).get("schedulingGroup"):
        spec.pop("schedulingGroup", None)
    if old is not None:
        for field in ("priority", "preemptionPolicy"):
            if field not in spec and field in old["spec"]:
                spec[field] = old["spec"][field]
        if not spec.get("nodeName"):
            spec.pop("nodeName", None)
        default_tolerations(spec)
        return
    set_limit_range_defaults(new, context)
    _set_account(new, context)
    _set_priority(new, context)
    default_tolerations(spec)
    _set_runtime_class(new, context)
    new["status"] = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        why = "Scheduling is blocked due to non-empty scheduling gates"
        gated = condition("PodScheduled", False, "SchedulingGated", why)
        new["status"] = with_condition(new["status"], gated, now=context.now)


def _drop_new_gates(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Drop scheduling gates while the feature is off, unless the stored pod has some; those are immutable."""
    present = (old or {}).get("spec", {}).get("schedulingGates", [])
    if not present:
        new["spec"].pop("schedulingGates", None)
    elif new["spec"].get("schedulingGates", []) != present:
        why = f"may not be changed while the feature gate {SCHEDULING_GATES_GATE} is off"
        raise invalid(context.row, name_of(new), [forbidden_field("spec.schedulingGates", why)])


def priority_from_class(obj: Obj, context: WriteContext) -> tuple[int, str]:
    """Priority and preemption policy of the class a spec names, or of the default, which it then names."""
    spec = obj["spec"]
    name = spec.get("priorityClassName", "")
    if name:
        found = context.store.latest(_PRIORITY_CLASSES, name)
        if found is None:
            raise forbidden(context.row, name_of(obj), f"no PriorityClass with name {name} was found")
    else:
        defaults = [
            each for each in context.store.latest_list(_PRIORITY_CLASSES) if each.get("globalDefault")
        ]
        found = min(defaults, key=lambda each: each.get("value", 0), default=None)
    policy = "PreemptLowerPriority"
    if found is None:
        return 0, policy
    spec["priorityClassName"] = name_of(found)
    return found.get("value", 0), found.get("preemptionPolicy", policy)


def _set_priority(pod: Obj, context: WriteContext) -> None:
    spec = pod["spec"]
    value, policy = priority_from_class(pod, context)
    if spec.get("priority", value) != value:
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; "
        why += f"priority admission controller computed {value} from the given PriorityClass name"
        raise forbidden(context.row, name_of(pod), why)
    if spec.get("preemptionPolicy", policy) != policy:
        why = f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
        why += f"pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        raise forbidden(context.row, name_of(pod), why)
    spec |= {"priority": value, "preemptionPolicy": policy}


def prepare_priority_class(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if not new.get("globalDefault"):
        return
    for other in context.store.latest_list(_PRIORITY_CLASSES):
        if other.get("globalDefault") and name_of(other) != name_of(new):
            why = f"PriorityClass {name_of(other)} is already marked as default. Only one default can exist"
            raise forbidden(context.row, name_of(new), why)


def prepare_namespace(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is not None and "spec" in old:
        # Its finalizers change only through the finalize subresource.
        new["spec"] = old["spec"]


def prepare_service(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Set the cluster IP and node ports of a service; nothing routes to them."""
    spec = new["spec"]
    if spec.get("type") == "ExternalName":
        return
    _set_node_ports(new, old, context)
    if old is not None:
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if field in old["spec"]:
                spec.setdefault(field, old["spec"][field])
        return
    if not spec.get("clusterIP"):
        spec["clusterIP"] = _free_address(new, context)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    new.setdefault("status", {"loadBalancer": {}})


def _free_address(service: Obj, context: WriteContext) -> str:
    taken = {each.get("spec", {}).get("clusterIP") for each in context.store.latest_list("services")}
    size = _SERVICE_NETWORK.num_addresses
    start = int.from_bytes(hashlib.sha256(str(service["metadata"]["uid"]).encode()).digest()[:4])
    for step in range(size):
        address = str(_SERVICE_NETWORK[1 + (start + step) % (size - 2)])
        if address not in taken:
            return address
    raise forbidden(context.row, name_of(service), "no cluster IP is left")


def prepare_claim(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is not None:
        return
    if "storageClassName" not in new["spec"]:
        classes = context.store.latest_list("storageclasses.storage.k8s.io")
        if (default := newest_default(classes, _DEFAULT_CLASS)) is not None:
            new["spec"]["storageClassName"] = name_of(default)


def prepare_ingress(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is not None:
        return
    spec = new.setdefault("spec", {})
    if "ingressClassName" in spec or _INGRESS_CLASS in new["metadata"].get("annotations", {}):
        return
    classes = context.store.latest_list("ingressclasses.networking.k8s.io")
    if (default := newest_default(classes, _DEFAULT_INGRESS_CLASS)) is not None:
        spec["ingressClassName"] = name_of(default)


def prepare_volume(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}


def prepare_pod_status(new: Obj, old: Obj, context: WriteContext) -> None:
    """Restore what a write of the status cannot change."""
    _restore(new["metadata"], old["metadata"], "ownerReferences")
    status, before = new["status"], old.get("status", {})
    for name in ("qosClass", "observedGeneration"):
        if not status.get(name):
            _restore(status, before, name)
    if not context.gates.get("DRANodeAllocatableResources", False) and not before.get(_NODE_RESOURCES):
        status.pop(_NODE_RESOURCES, None)
    seen = {one.get("type"): one.get("observedGeneration") for one in before.get("conditions") or ()}
    for each in status.get("conditions") or ():
        if not each.get("observedGeneration") and seen.get(each.get("type")):
            each["observedGeneration"] = seen[each["type"]]


def prepare_deployment_status(new: Obj, old: Obj, _context: WriteContext) -> None:
    _restore(new["metadata"], old["metadata"], "labels")


def _restore(new: Obj, old: Obj, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)


def prepare_job(new: Obj, old: Obj | None, context: WriteContext) -> None:
    if old is None:
        new.pop("status", None)
        own_job_pods(new)


def prepare_api_service(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Mark an APIService without a service as available."""
    if old is None and "service" not in new.get("spec", {}):
        available = condition("Available", True, "Local", "Local APIServices are always available")
        new["status"] = with_condition({}, available, now=context.now)


def _set_node_ports(service: Obj, old: Obj | None, context: WriteContext) -> None:
    """Assign a free node port to each port that needs one; existing numbers are kept."""
    spec = service["spec"]
    ports = spec.get("ports", ())
    if not _needs_node_ports(spec):
        if old is not None and _needs_node_ports(old["spec"]):
            for port in ports:
                port.pop("nodePort", None)
        return
    old_ports = () if old is None else old["spec"].get("ports", ())
    before = {_port_key(port): port.get("nodePort") for port in old_ports}
    taken = {
        (port["nodePort"], port.get("protocol"))
        for other in context.store.latest_list("services")
        if key_of(other) != key_of(service)
        for port in other.get("spec", {}).get("ports", ())
        if port.get("nodePort")
    }
    for index, port in enumerate(ports):
        number = port.get("nodePort") or before.get(_port_key(port)) or 0
        if number:
            _check_node_port(service, number, index, context, taken=(number, port.get("protocol")) in taken)
        else:
            number = next((each for each in _NODE_PORTS if (each, port.get("protocol")) not in taken), 0)
        if number:
            port["nodePort"] = number
            taken.add((number, port.get("protocol")))


def _needs_node_ports(spec: Obj) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _port_key(port: Obj) -> tuple[object, object]:
    return port.get("port"), port.get("protocol")


def _check_node_port(service: Obj, number: int, index: int, context: WriteContext, *, taken: bool) -> None:
    why = ""
    if number not in _NODE_PORTS:
        ends = f"{_NODE_PORTS.start}-{_NODE_PORTS.stop - 1}"
        why = f"provided port is not in the valid range. The range of valid ports is {ends}"
    elif taken:
        why = "provided port is already allocated"
    if why:
        cause = invalid_value(f"spec.ports[{index}].nodePort", number, why)
        raise invalid(context.row, name_of(service), [cause])


def _set_account(pod: Obj, context: WriteContext) -> None:
    """Set the pod's service account and the pull secrets of that account."""
    if MIRROR_ANNOTATION in pod["metadata"].get("annotations", {}):
        return
    spec, namespace = pod["spec"], namespace_of(pod)
    name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = context.store.latest(ACCOUNTS, make_key(namespace, name))
    if account is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise forbidden(context.row, name_of(pod), why)
    if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(each) for each in account["imagePullSecrets"]]


def _set_runtime_class(pod: Obj, context: WriteContext) -> None:
    """Set the overhead, node selector and tolerations of the pod's runtime class."""
    spec = pod["spec"]
    name = spec.get("runtimeClassName", "")
    found = context.store.latest(RUNTIME_CLASSES, name) if name else {}
    if found is None:
        raise forbidden(context.row, name_of(pod), f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (found.get("overhead") or {}).get("podFixed", {})
    if spec.get("overhead") and not overhead:
        why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden(context.row, name_of(pod), why)
    if overhead:
        if spec.get("overhead", overhead) != overhead:
            why = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise forbidden(context.row, name_of(pod), why)
        spec["overhead"] = dict(overhead)
    _apply_scheduling(pod, found.get("scheduling") or {}, context)


def _apply_scheduling(pod: Obj, scheduling: Obj, context: WriteContext) -> None:
    spec = pod["spec"]
    selector = dict(spec.get("nodeSelector", {}))
    for key, value in scheduling.get("nodeSelector", {}).items():
        if selector.get(key, value) != value:
            why = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
            why += f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            raise forbidden(context.row, name_of(pod), why)
        selector[key] = value
    if selector:
        spec["nodeSelector"] = selector
    present = spec.get("tolerations", [])
    more = [dict(each) for each in scheduling.get("tolerations", ()) if each not in present]
    if more:
        spec["tolerations"] = [*present, *more]
