"""Limits of a namespace: ResourceQuotas for all of its objects, LimitRanges for each container, pod or claim.

In: an object before and after a write, and the quotas and limit ranges of its namespace. Out: the object with
the defaults of limit ranges, a 403 in upstream's words for one that exceeds a limit, and the quotas with
their new counts. Counts change in the same step as the objects that they count, so they never disagree and no
controller is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

from kuberth.api.pod_resources import (
    SIDECAR,
    add_amounts,
    is_pod_level_resource,
    parse_amounts,
    sum_containers,
)
from kuberth.api.quantity import Quantity, parse
from kuberth.errors import QuantityError
from kuberth.local.apiserver.objects import Obj, annotation_of, name_of, namespace_of
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.defaulting import all_containers, qos_class
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import forbidden
from kuberth.local.apiserver.store.store import RevisionStore

Amounts = dict[str, Quantity]


def pod_amounts(spec: Obj, field: str) -> Amounts:
    """The sum of `requests` or `limits` of the containers.

    What the pod itself asks for replaces what its containers do. Overhead comes on top, of limits only where
    there are some.
    """
    total = sum_containers(
        (_amounts_of(each, field) for each in spec.get("containers", ())),
        (
            (each.get("restartPolicy") == SIDECAR, _amounts_of(each, field))
            for each in spec.get("initContainers", ())
        ),
    )
    total |= {
        name: amount for name, amount in _amounts_of(spec, field).items() if is_pod_level_resource(name)
    }
    overhead = parse_amounts(spec.get("overhead", {}))
    if field == "limits":
        overhead = {name: amount for name, amount in overhead.items() if name in total}
    return added(total, overhead)


def added(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    add_amounts(total, right)
    return total


def _amounts_of(holder: Obj, field: str) -> Amounts:
    """The `requests` or `limits` of a container, of a pod itself, or of a claim."""
    return parse_amounts((holder.get("resources") or {}).get(field, {}))


QUOTAS: Final = "resourcequotas"
_COUNT: Final = "count/"
_ONE: Final = parse("1")
_ZERO: Final = parse("0")
NAMED_COUNTS: Final = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
)
"""Kinds that may be counted by their bare names, as before there was `count/`."""
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_MUST_BE_REQUESTED: Final = ("cpu", "memory")
_STORAGE_CLASS: Final = ".storageclass.storage.k8s.io/"
_RESOURCE_CLAIMS: Final = "resourceclaims.resource.k8s.io"
_DEVICE_CLASS: Final = ".deviceclass.resource.k8s.io/devices"
_IMPLICIT_CLASS: Final = "requests.deviceclass.resource.kubernetes.io/"
_EXTENDED_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"
_MAX_DEVICES: Final = 32
"""The maximum number of devices of a claim, which a request for all devices counts as."""
_ENDED: Final = ("Succeeded", "Failed")


def check_quotas(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """StatusError 403 if a write would exceed a quota."""
    row = context.row
    for quota in _quotas(context.store, row, new):
        if old is None and row.stored_as == "pods" and _in_scope(quota, row.stored_as, new):
            _check_requested(row, new, quota)
        try:
            delta = _delta(quota, row.stored_as, new, old)
            exceeded = _exceeded(quota, delta)
        except QuantityError as error:
            raise forbidden(row, name_of(new), f"failed quota: {name_of(quota)}: {error}") from None
        if exceeded:
            used, hard = quota["status"].get("used", {}), quota["status"]["hard"]
            why = (
                f"exceeded quota: {name_of(quota)}, requested: {_listed(delta, exceeded)}, "
                f"used: {_listed(used, exceeded)}, limited: {_listed(hard, exceeded)}"
            )
            raise forbidden(row, name_of(new), why)


def recounted(store: RevisionStore, row: ServedResource, new: Obj | None, old: Obj | None) -> Iterator[Obj]:
    """The quotas whose counts a write changes, with their new counts."""
    for quota in _quotas(store, row, new or old or {}):
        try:
            moved = {name: more for name, more in _delta(quota, row.stored_as, new, old).items() if more}
            if moved:
                yield _with_used(quota, added(_used(quota), moved))
        except QuantityError:
            continue  # amounts too far apart to be added; `check` lets none of them in


def prepare_quota(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """Recount a quota at every write other than of its status."""
    new.setdefault("spec", {})
    if old is None or new.get("status") == old.get("status"):
        new["status"] = counted(new, context.store)["status"]


def counted(quota: Obj, store: RevisionStore) -> Obj:
    """The quota with a status counted from all objects of its namespace."""
    hard = quota.get("spec", {}).get("hard", {})
    quota = {**quota, "status": {"hard": dict(hard), "used": {}}}
    total: Amounts = dict.fromkeys(hard, _ZERO)
    for resource in _counted_resources(hard):
        for obj in store.latest_list(resource, namespace=namespace_of(quota)):
            with suppress(QuantityError):  # from before there was a quota
                total = added(total, _usage(quota, resource, obj))
    return _with_used(quota, total)


def _quotas(store: RevisionStore, row: ServedResource, obj: Obj) -> Iterable[Obj]:
    namespace = namespace_of(obj)
    if not row.namespaced or not namespace:
        return ()
    return [
        each for each in store.latest_list(QUOTAS, namespace=namespace) if each.get("status", {}).get("hard")
    ]


def _with_used(quota: Obj, used: Amounts) -> Obj:
    texts = {name: str(max(quantity, _ZERO)) for name, quantity in used.items()}
    return {**quota, "status": {**quota["status"], "used": texts}}


def _used(quota: Obj) -> Amounts:
    return {name: parse(text) for name, text in quota["status"].get("used", {}).items()}


def _delta(quota: Obj, resource: str, new: Obj | None, old: Obj | None) -> Amounts:
    after = _usage(quota, resource, new) if new is not None else {}
    before = _usage(quota, resource, old) if old is not None else {}
    return added(after, {name: -less for name, less in before.items()})


def _exceeded(quota: Obj, delta: Amounts) -> list[str]:
    used, hard = _used(quota), quota["status"]["hard"]
    return [
        name
        for name, more in sorted(delta.items())
        if more > _ZERO and used.get(name, _ZERO) + more > parse(hard[name])
    ]


def _listed(amounts: dict[str, Any], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts.get(name, '0')}" for name in names)


def _usage(quota: Obj, resource: str, obj: Obj) -> Amounts:
    """The amounts of a quota that an object uses."""
    if not _in_scope(quota, resource, obj):
        return {}
    hard = quota["status"]["hard"]
    usage: Amounts = {f"{_COUNT}{resource}": _ONE}
    if resource in NAMED_COUNTS:
        usage[resource] = _ONE
    if resource == "pods":
        if obj.get("status", {}).get("phase") in _ENDED:
            # A pod that has ended is still an object.
            usage = {f"{_COUNT}{resource}": _ONE}
        else:
            usage |= _pod_usage(obj.get("spec", {}))
    elif resource == "services":
        usage |= _service_usage(obj.get("spec", {}))
    elif resource == "persistentvolumeclaims":
        usage |= _claim_usage(obj.get("spec", {}))
    elif resource == _RESOURCE_CLAIMS:
        usage |= _device_usage(obj)
    return {name: quantity for name, quantity in usage.items() if name in hard}


def _pod_usage(spec: Obj) -> Amounts:
    usage = {}
    for name, quantity in pod_amounts(spec, "requests").items():
        usage[f"requests.{name}"] = quantity
        if name in _COMPUTE or name.startswith("hugepages-"):
            usage[name] = quantity
    for name, quantity in pod_amounts(spec, "limits").items():
        usage[f"limits.{name}"] = quantity
    return usage


def _service_usage(spec: Obj) -> Amounts:
    kind, ports = spec.get("type"), spec.get("ports", ())
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    outside = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    balanced = int(kind == "LoadBalancer")
    return {"services.nodeports": Quantity(outside), "services.loadbalancers": Quantity(balanced)}


def _claim_usage(spec: Obj) -> Amounts:
    usage: Amounts = {}
    storage = (spec.get("resources") or {}).get("requests", {}).get("storage")
    if storage is not None:
        usage["requests.storage"] = parse(storage)
    if class_name := spec.get("storageClassName"):
        of_class = {**usage, "persistentvolumeclaims": _ONE}
        usage |= {f"{class_name}{_STORAGE_CLASS}{name}": quantity for name, quantity in of_class.items()}
    return usage


def _device_usage(claim: Obj) -> Amounts:
    """Devices by class; each class of alternatives counts with its maximum."""
    by_class: dict[str, int] = {}
    for request in claim.get("spec", {}).get("devices", {}).get("requests", ()):
        most: dict[str, int] = {}
        for asked in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name = asked.get("deviceClassName", "")
            most[name] = max(most.get(name, 0), _device_count(asked))
        for name, number in most.items():
            by_class[name] = by_class.get(name, 0) + number
    usage = {f"{name}{_DEVICE_CLASS}": Quantity(number) for name, number in by_class.items() if name}
    if annotation_of(claim, _EXTENDED_CLAIM) != "true":
        # Claims that the scheduler creates for extended resources are already counted with the pod.
        usage |= {f"{_IMPLICIT_CLASS}{name}": Quantity(number) for name, number in by_class.items() if name}
    return usage


def _device_count(request: Obj) -> int:
    mode = request.get("allocationMode", "ExactCount")
    if mode == "ExactCount":
        return int(request.get("count", 1))
    return _MAX_DEVICES if mode == "All" else 0


def _counted_resources(hard: Iterable[str]) -> set[str]:
    found = set()
    for name in hard:
        if name.startswith(_COUNT):
            found.add(name.removeprefix(_COUNT))
        elif name in NAMED_COUNTS:
            found.add(name)
        elif name.startswith("services."):
            found.add("services")
        elif name.endswith(_DEVICE_CLASS):
            found.add(_RESOURCE_CLAIMS)
        elif name.startswith(_IMPLICIT_CLASS):
            found |= {_RESOURCE_CLAIMS, "pods"}
        elif name == "requests.storage" or _STORAGE_CLASS in name:
            found.add("persistentvolumeclaims")
        else:
            found.add("pods")
    return found


# Scopes narrow a quota to some pods.


def _in_scope(quota: Obj, resource: str, obj: Obj) -> bool:
    spec = quota.get("spec", {})
    terms = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes", ())]
    terms += (spec.get("scopeSelector") or {}).get("matchExpressions", ())
    if not terms:
        return True
    return resource == "pods" and all(_matches(term, obj.get("spec", {})) for term in terms)


def _matches(term: Obj, spec: Obj) -> bool:
    match term.get("scopeName"):
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "BestEffort":
            return qos_class(spec) == "BestEffort"
        case "NotBestEffort":
            return qos_class(spec) != "BestEffort"
        case "PriorityClass":
            return _matches_class(term, spec.get("priorityClassName", ""))
        case "CrossNamespacePodAffinity":
            return any(term.get("namespaces") or "namespaceSelector" in term for term in _pod_terms(spec))
    return False


def _matches_class(term: Obj, name: str) -> bool:
    match term.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in term.get("values", ())
    return name not in term.get("values", ())


def _pod_terms(spec: Obj) -> Iterator[Obj]:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        yield from rules.get("requiredDuringSchedulingIgnoredDuringExecution", ())
        for weighted in rules.get("preferredDuringSchedulingIgnoredDuringExecution", ()):
            yield weighted.get("podAffinityTerm", {})


def _check_requested(row: ServedResource, pod: Obj, quota: Obj) -> None:
    """Refuse containers without requests or limits of cpu or memory that a quota limits."""
    spec = pod.get("spec", {})
    if spec.get("resources"):
        return
    missing = []
    for name in sorted(quota["status"]["hard"]):
        field, _, resource = name.rpartition(".")
        if resource not in _MUST_BE_REQUESTED or field not in ("", "requests", "limits"):
            continue
        lacking = sorted(
            container.get("name", "")
            for container in all_containers(spec)
            if resource not in container.get("resources", {}).get(field or "requests", {})
        )
        if lacking:
            missing.append(f"{name} for: {','.join(lacking)}")
    if missing:
        why = f"failed quota: {name_of(quota)}: must specify {'; '.join(missing)}"
        raise forbidden(row, name_of(pod), why)


LIMIT_RANGES: Final = "limitranges"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_PODS: Final = "pods"
_CLAIMS: Final = "persistentvolumeclaims"
_DEFAULTS: Final = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))
"""Field of a container, field of a limit, and the word for it."""


def set_limit_range_defaults(pod: Obj, context: WriteContext) -> None:
    """Set missing requests and limits of containers, and record them in an annotation."""
    for limit_range in context.store.latest_list(LIMIT_RANGES, namespace=namespace_of(pod)):
        limits = [each for each in _limits(limit_range) if each.get("type") == "Container"]
        notes = [
            note
            for group, word in (("containers", "container"), ("initContainers", "init container"))
            for container in pod["spec"].get(group, ())
            for note in _fill(container, limits, word)
        ]
        if notes:
            annotations = pod["metadata"].setdefault("annotations", {})
            annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def check_limit_ranges(new: Obj, old: Obj | None, context: WriteContext) -> None:
    """StatusError 403 if an object requests too little or too much; existing pods are not checked."""
    row = context.row
    if row.stored_as not in (_PODS, _CLAIMS) or (old is not None and row.stored_as == _PODS):
        return
    find_problems = _pod_problems if row.stored_as == _PODS else _claim_problems
    for limit_range in context.store.latest_list(LIMIT_RANGES, namespace=namespace_of(new)):
        problems = list(
            dict.fromkeys(each for limit in _limits(limit_range) for each in find_problems(new, limit))
        )
        if problems:
            listed = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise forbidden(row, name_of(new), listed)


def _limits(limit_range: Obj) -> list[Obj]:
    limits: list[Obj] = limit_range.get("spec", {}).get("limits", [])
    return limits


def _fill(container: Obj, limits: list[Obj], word: str) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for field, source, title in _DEFAULTS:
        present = resources.get(field, {})
        missing = {
            name: text
            for limit in limits
            for name, text in limit.get(source, {}).items()
            if name not in present
        }
        if missing:
            resources[field] = {**present, **missing}
            yield f"{', '.join(sorted(missing))} {title} for {word} {container.get('name', '')}"


def _pod_problems(pod: Obj, limit: Obj) -> Iterator[str]:
    spec = pod.get("spec", {})
    if limit.get("type") == "Container":
        for container in all_containers(spec):
            requests, limits = _amounts_of(container, "requests"), _amounts_of(container, "limits")
            yield from _limit_problems(limit, requests, limits)
    elif limit.get("type") == "Pod":
        yield from _limit_problems(limit, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _claim_problems(claim: Obj, limit: Obj) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = _amounts_of(claim.get("spec", {}), "requests")
    # A claim has no limits: its request is compared with the maximum.
    yield from _limit_problems({**limit, "max": {}}, requests, {})
    for name, text in limit.get("max", {}).items():
        rule = f"maximum {name} usage per {limit['type']} is {text}"
        yield from _excess_problems(rule, parse(text), requests.get(name), "request")


def _limit_problems(limit: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit.get("type", "")
    for name, text in limit.get("min", {}).items():
        rule, least = f"minimum {name} usage per {kind} is {text}", parse(text)
        asked, most = requests.get(name), limits.get(name)
        if asked is None:
            yield f"{rule}.  No request is specified"
        elif asked < least:
            yield f"{rule}, but request is {asked}"
        elif most is not None and most < least:
            yield f"{rule}, but limit is {most}"
    for name, text in limit.get("max", {}).items():
        rule, ceiling = f"maximum {name} usage per {kind} is {text}", parse(text)
        over = list(_excess_problems(rule, ceiling, limits.get(name), "limit"))
        if not over and name in requests:
            over = list(_excess_problems(rule, ceiling, requests[name], "request"))
        yield from over
    for name, text in limit.get("maxLimitRequestRatio", {}).items():
        rule = f"{name} max limit to request ratio per {kind} is {text}"
        yield from _ratio_problems(rule, parse(text), requests.get(name), limits.get(name))


def _excess_problems(rule: str, ceiling: Quantity, found: Quantity | None, word: str) -> Iterator[str]:
    if found is None:
        yield f"{rule}.  No {word} is specified"
    elif ceiling < found:
        yield f"{rule}, but {word} is {found}"


def _ratio_problems(
    rule: str, ratio: Quantity, asked: Quantity | None, most: Quantity | None
) -> Iterator[str]:
    if not asked:
        yield f"{rule}, but no request is specified or request is 0"
    elif not most:
        yield f"{rule}, but no limit is specified or limit is 0"
    elif most.milli_value() * 1000 > ratio.milli_value() * asked.milli_value():
        yield f"{rule}, but provided ratio is {most.milli_value() / asked.milli_value():f}"
