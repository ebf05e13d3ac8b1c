"""Cells of access control, networking, autoscaling, quotas and admission, named in schema/resources.yaml.

In: an object, or its value at the column's path. Out: a string, as upstream prints it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing.ages import human_duration
from kuberth.local.apiserver.printing.cells import NONE, UNSET, selector_cell

_MOST_LISTED: Final = 3
_MOST_METRICS: Final = 2
_BALANCER_WIDTH: Final = 16
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


def _listed(items: Sequence[str], *, most: int = _MOST_LISTED, empty: str = UNSET, comma: str = ",") -> str:
    """The first few, and how many more there are."""
    if not items:
        return empty
    shown_items = comma.join(items[:most])
    return f"{shown_items} + {len(items) - most} more..." if len(items) > most else shown_items


def hosts(ingress: Obj) -> str:
    hosts = [rule["host"] for rule in ingress.get("spec", {}).get("rules", ()) if rule.get("host")]
    return _listed(hosts, empty="*")


def load_balancers(ingress: Obj) -> str:
    entries = ingress.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    listed = ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in entries} - {""}))
    return listed if len(listed) <= _BALANCER_WIDTH else listed[: _BALANCER_WIDTH - 3] + "..."


def ingress_class_name(obj: Obj) -> str:
    default = obj["metadata"].get("annotations", {}).get(_DEFAULT_INGRESS_CLASS) == "true"
    return name_of(obj) + (" (default)" if default else "")


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def metrics(autoscaler: Obj) -> str:
    statuses = autoscaler.get("status", {}).get("currentMetrics") or []
    wanted = autoscaler.get("spec", {}).get("metrics", [])
    listed = [
        _metric(metric, statuses[index] if index < len(statuses) else {})
        for index, metric in enumerate(wanted)
    ]
    return _listed(listed, most=_MOST_METRICS, empty=NONE, comma=", ")


def _metric(metric: Obj, status: Obj) -> str:
    kind = metric.get("type", "")
    field = kind[:1].lower() + kind[1:]
    source = metric.get(field)
    if not isinstance(source, dict):
        return "<unknown type>"
    target, current = source.get("target", {}), (status.get(field) or {}).get("current", {})
    averaged = "averageValue" in target
    if kind in ("Resource", "ContainerResource"):
        if averaged:
            wanted, now = target["averageValue"], current.get("averageValue", "<unknown>")
        else:
            wanted, now = (side.get("averageUtilization") for side in (target, current))
            wanted = "<auto>" if wanted is None else f"{wanted}%"
            now = "<unknown>" if now is None else f"{now}%"
        return f"{source.get('name', '')}: {now}/{wanted}"
    name = "averageValue" if averaged else "value"
    suffix = " (avg)" if averaged and kind != "Pods" else ""
    return f"{current.get(name, '<unknown>')}/{target.get(name, '0')}{suffix}"


def revision_owner(revision: Obj) -> str:
    for owner in revision["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return NONE


def joined(items: Sequence[str] | None) -> str:
    return ",".join(items or ()) or NONE


def seconds_or_none(seconds: int | None) -> str:
    return NONE if seconds is None else human_duration(seconds * NANOSECONDS)


def request_condition(request: Obj) -> str:
    """What became of a certificate signing request."""
    status = request.get("status", {})
    types = [each["type"] for each in status.get("conditions", ())]
    shown = [each for each in ("Approved", "Denied", "Failed") if each in types]
    return ",".join([*shown, *(["Issued"] if status.get("certificate") else [])]) or "Pending"


def param_ref(reference: Obj | None) -> str:
    reference = reference or {}
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    return selector_cell(reference["selector"]) if "selector" in reference else UNSET


def endpoint_addresses(subsets: Sequence[Obj] | None) -> str:
    found: list[str] = []
    for subset in subsets or ():
        ips = [_bracketed(address.get("ip", "")) for address in subset.get("addresses", ())]
        ports = subset.get("ports", ())
        found += [f"{ip}:{port.get('port', 0)}" for port in ports for ip in ips] if ports else ips
    return _listed(found, empty=NONE)


def slice_ports(ports: Sequence[Obj] | None) -> str:
    return _listed([str(port.get("port", port.get("name") or "*")) for port in ports or ()])


def slice_addresses(endpoints: Sequence[Obj] | None) -> str:
    return _listed([address for each in endpoints or () for address in each.get("addresses", ())])


def users(subjects: Sequence[Obj] | None) -> str:
    return _subject_names(subjects, "User")


def groups(subjects: Sequence[Obj] | None) -> str:
    return _subject_names(subjects, "Group")


def service_accounts(subjects: Sequence[Obj] | None) -> str:
    found = [each for each in subjects or () if each.get("kind") == "ServiceAccount"]
    return ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found)


def _subject_names(subjects: Sequence[Obj] | None, kind: str) -> str:
    return ", ".join(each.get("name", "") for each in subjects or () if each.get("kind") == kind)


def quota_requests(status: Obj | None) -> str:
    return _quota(status or {}, limits=False)


def quota_limits(status: Obj | None) -> str:
    return _quota(status or {}, limits=True)


def _quota(status: Obj, *, limits: bool) -> str:
    used = status.get("used", {})
    return ", ".join(
        f"{name}: {used.get(name, '0')}/{hard}"
        for name, hard in sorted(status.get("hard", {}).items())
        if name.startswith("limits.") is limits
    )


def is_available(conditions: Sequence[Obj] | None) -> str:
    for condition in conditions or ():
        if condition.get("type") == "Available":
            status, reason = condition.get("status", ""), condition.get("reason", "")
            return f"{status} ({reason})" if reason and status != "True" else str(status)
    return "Unknown"
