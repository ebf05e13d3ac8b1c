"""Table columns of the kinds around the workloads: access, networking, autoscaling, quotas, admission.

In: objects. Out: for each kind a tuple of columns, as upstream prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing.ages import since
from kuberth.local.apiserver.printing.cells import (
    NONE,
    UNSET,
    at,
    container_images,
    container_names,
    labels_text,
    shown,
    shown_selector,
    text,
)
from kuberth.local.apiserver.printing.columns import AGE, NAME
from kuberth.local.apiserver.resources import Column

_MOST_LISTED: Final = 3
_MOST_METRICS: Final = 2
_BALANCER_WIDTH: Final = 16
_DEFAULT_INGRESS_CLASS: Final = "ingressclass.kubernetes.io/is-default-class"


def _param_kind(policy: Obj) -> str:
    kind = policy.get("spec", {}).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET


def _param_ref(binding: Obj) -> str:
    reference = binding.get("spec", {}).get("paramRef") or {}
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    return shown_selector(reference["selector"]) if "selector" in reference else UNSET


def _listed(items: Sequence[str], *, most: int = _MOST_LISTED, empty: str = UNSET, comma: str = ",") -> str:
    """The first few, and how many more there are."""
    if not items:
        return empty
    shown_items = comma.join(items[:most])
    return f"{shown_items} + {len(items) - most} more..." if len(items) > most else shown_items


def _spec(obj: Obj) -> Obj:
    spec: Obj = obj.get("spec", {})
    return spec


def _count(field: str) -> Callable[[Obj], int]:
    return lambda obj: len(obj.get(field, ()))


def _job_template(cron_job: Obj) -> Obj:
    template: Obj = _spec(cron_job).get("jobTemplate", {})
    return template


def _suspended(cron_job: Obj) -> str:
    # Python and the printer of upstream spell booleans alike.
    return str(_spec(cron_job).get("suspend", UNSET))


def _last_schedule(cron_job: Obj, now: int) -> str:
    last = cron_job.get("status", {}).get("lastScheduleTime")
    return NONE if last is None else since(last, now)


def _hosts(ingress: Obj) -> str:
    hosts = [rule["host"] for rule in _spec(ingress).get("rules", ()) if rule.get("host")]
    return _listed(hosts, empty="*")


def _balancers(ingress: Obj) -> str:
    entries = ingress.get("status", {}).get("loadBalancer", {}).get("ingress", ())
    listed = ",".join(sorted({each.get("ip") or each.get("hostname", "") for each in entries} - {""}))
    return listed if len(listed) <= _BALANCER_WIDTH else listed[: _BALANCER_WIDTH - 3] + "..."


def _ingress_class_name(obj: Obj) -> str:
    default = obj["metadata"].get("annotations", {}).get(_DEFAULT_INGRESS_CLASS) == "true"
    return name_of(obj) + (" (default)" if default else "")


def _parameters(ingress_class: Obj) -> str:
    parameters = _spec(ingress_class).get("parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


def _addresses(endpoints: Obj) -> str:
    found: list[str] = []
    for subset in endpoints.get("subsets", ()):
        ips = [_bracketed(address.get("ip", "")) for address in subset.get("addresses", ())]
        ports = subset.get("ports", ())
        found += [f"{ip}:{port.get('port', 0)}" for port in ports for ip in ips] if ports else ips
    return _listed(found, empty=NONE)


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def _slice_ports(endpoint_slice: Obj) -> str:
    ports = endpoint_slice.get("ports", ())
    return _listed([str(port.get("port", port.get("name") or "*")) for port in ports])


def _slice_addresses(endpoint_slice: Obj) -> str:
    endpoints = endpoint_slice.get("endpoints", ())
    return _listed([address for each in endpoints for address in each.get("addresses", ())])


def _role(binding: Obj) -> str:
    reference = binding.get("roleRef", {})
    return f"{reference.get('kind', '')}/{reference.get('name', '')}"


def _subjects(kind: str) -> Callable[[Obj], str]:
    def cell(binding: Obj) -> str:
        found = [each for each in binding.get("subjects", ()) if each.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{each.get('namespace', '')}/{each.get('name', '')}" for each in found)
        return ", ".join(each.get("name", "") for each in found)

    return cell


def _quota(*, limits: bool) -> Callable[[Obj], str]:
    def cell(quota: Obj) -> str:
        status = quota.get("status", {})
        used = status.get("used", {})
        return ", ".join(
            f"{name}: {used.get(name, '0')}/{hard}"
            for name, hard in sorted(status.get("hard", {}).items())
            if name.startswith("limits.") is limits
        )

    return cell


def _metrics(autoscaler: Obj) -> str:
    statuses = autoscaler.get("status", {}).get("currentMetrics") or []
    wanted = _spec(autoscaler).get("metrics", [])
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
            wanted, now = (_percent(side.get("averageUtilization")) for side in (target, current))
            wanted, now = wanted or "<auto>", now or "<unknown>"
        return f"{source.get('name', '')}: {now}/{wanted}"
    name = "averageValue" if averaged else "value"
    suffix = " (avg)" if averaged and kind != "Pods" else ""
    return f"{current.get(name, '<unknown>')}/{target.get(name, '0')}{suffix}"


def _percent(number: Any) -> str:
    return "" if number is None else f"{number}%"


def _dangling(flow_schema: Obj) -> str:
    for condition in flow_schema.get("status", {}).get("conditions", ()):
        if condition.get("type") == "Dangling":
            return str(condition.get("status", ""))
    return "?"


def _revision_owner(revision: Obj) -> str:
    for owner in revision["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
    return NONE


_LIMITED: Final = "spec.limited"
_QUEUING: Final = f"{_LIMITED}.limitResponse.queuing"

NAME_AND_CREATION: Final = (NAME, Column("Created At", at("metadata.creationTimestamp"), type="date"))
SECRET: Final = (NAME, Column("Type", at("type")), Column("Data", shown(_count("data"))), AGE)
ROLE_BINDING: Final = (
    NAME,
    Column("Role", shown(_role)),
    AGE,
    Column("Users", shown(_subjects("User")), priority=1),
    Column("Groups", shown(_subjects("Group")), priority=1),
    Column("ServiceAccounts", shown(_subjects("ServiceAccount")), priority=1),
)
RESOURCE_QUOTA: Final = (
    NAME,
    Column("Request", shown(_quota(limits=False))),
    Column("Limit", shown(_quota(limits=True))),
    AGE,
)
RUNTIME_CLASS: Final = (NAME, Column("Handler", at("handler")), AGE)
DAEMON_SET: Final = (
    NAME,
    Column("Desired", at("status.desiredNumberScheduled", 0), type="integer"),
    Column("Current", at("status.currentNumberScheduled", 0), type="integer"),
    Column("Ready", at("status.numberReady", 0), type="integer"),
    Column("Up-to-date", at("status.updatedNumberScheduled", 0), type="integer"),
    Column("Available", at("status.numberAvailable", 0), type="integer"),
    Column(
        "Node Selector",
        shown(lambda obj: labels_text(_spec(obj).get("template", {}).get("spec", {}).get("nodeSelector"))),
    ),
    AGE,
    Column("Containers", shown(container_names), priority=1),
    Column("Images", shown(container_images), priority=1),
    Column("Selector", shown(lambda obj: shown_selector(_spec(obj).get("selector"))), priority=1),
)
CRON_JOB: Final = (
    NAME,
    Column("Schedule", at("spec.schedule")),
    Column("Timezone", at("spec.timeZone", NONE)),
    Column("Suspend", shown(_suspended), type="boolean"),
    Column("Active", shown(lambda obj: len(obj.get("status", {}).get("active", ()))), type="integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    Column("Containers", shown(lambda obj: container_names(_job_template(obj))), priority=1),
    Column("Images", shown(lambda obj: container_images(_job_template(obj))), priority=1),
    Column(
        "Selector", shown(lambda obj: shown_selector(_spec(_job_template(obj)).get("selector"))), priority=1
    ),
)
INGRESS: Final = (
    NAME,
    Column("Class", at("spec.ingressClassName", NONE)),
    Column("Hosts", shown(_hosts), description="Hosts that incoming requests are matched against"),
    Column("Address", shown(_balancers)),
    Column("Ports", shown(lambda obj: "80, 443" if _spec(obj).get("tls") else "80")),
    AGE,
)
INGRESS_CLASS: Final = (
    Column("Name", shown(_ingress_class_name), format="name", description=NAME.description),
    Column("Controller", at("spec.controller")),
    Column("Parameters", shown(_parameters)),
    AGE,
)
NETWORK_POLICY: Final = (
    NAME,
    Column("Pod-Selector", shown(lambda obj: shown_selector(_spec(obj).get("podSelector", {})))),
    AGE,
)
ENDPOINTS: Final = (NAME, Column("Endpoints", shown(_addresses)), AGE)
ENDPOINT_SLICE: Final = (
    NAME,
    Column("AddressType", at("addressType")),
    Column("Ports", shown(_slice_ports)),
    Column("Endpoints", shown(_slice_addresses)),
    AGE,
)
HORIZONTAL_POD_AUTOSCALER: Final = (
    NAME,
    Column(
        "Reference",
        shown(
            lambda obj: "/".join(
                str(_spec(obj).get("scaleTargetRef", {}).get(part, "")) for part in ("kind", "name")
            )
        ),
    ),
    Column("Targets", shown(_metrics)),
    Column("MinPods", text("spec.minReplicas", UNSET)),
    Column("MaxPods", at("spec.maxReplicas", 0)),
    Column("Replicas", at("status.currentReplicas", 0)),
    AGE,
)
FLOW_SCHEMA: Final = (
    NAME,
    Column("PriorityLevel", at("spec.priorityLevelConfiguration.name")),
    Column("MatchingPrecedence", at("spec.matchingPrecedence", 0)),
    Column("DistinguisherMethod", at("spec.distinguisherMethod.type", NONE)),
    AGE,
    Column("MissingPL", shown(_dangling)),
)
PRIORITY_LEVEL: Final = (
    NAME,
    Column("Type", at("spec.type")),
    Column("NominalConcurrencyShares", at(f"{_LIMITED}.nominalConcurrencyShares", NONE)),
    Column("Queues", at(f"{_QUEUING}.queues", NONE)),
    Column("HandSize", at(f"{_QUEUING}.handSize", NONE)),
    Column("QueueLengthLimit", at(f"{_QUEUING}.queueLengthLimit", NONE)),
    AGE,
)
CONTROLLER_REVISION: Final = (
    NAME,
    Column("Controller", shown(_revision_owner)),
    Column("Revision", at("revision", 0)),
    AGE,
)


def admission_policy(rules: str) -> tuple[Column, ...]:
    """Of a policy whose rules go by this name."""
    number = shown(lambda obj: len(obj.get("spec", {}).get(rules.lower(), ())))
    return NAME, Column(rules, number, type="integer"), Column("ParamKind", shown(_param_kind)), AGE


ADMISSION_BINDING: Final = (
    NAME,
    Column("PolicyName", at("spec.policyName")),
    Column("ParamRef", shown(_param_ref)),
    AGE,
)


def _hosting_service(api_service: Obj) -> str:
    service = api_service.get("spec", {}).get("service")
    return "Local" if service is None else f"{service.get('namespace', '')}/{service.get('name', '')}"


def _is_available(api_service: Obj) -> str:
    for condition in api_service.get("status", {}).get("conditions", ()):
        if condition.get("type") == "Available":
            status, reason = condition.get("status", ""), condition.get("reason", "")
            return f"{status} ({reason})" if reason and status != "True" else str(status)
    return "Unknown"


API_SERVICE: Final = (
    NAME,
    Column("Service", shown(_hosting_service)),
    Column("Available", shown(_is_available)),
    AGE,
)
WEBHOOKS: Final = (NAME, Column("Webhooks", shown(_count("webhooks")), type="integer"), AGE)
POD_TEMPLATE: Final = (
    NAME,
    Column("Containers", shown(lambda obj: container_names({"spec": obj}))),
    Column("Images", shown(lambda obj: container_images({"spec": obj}))),
    Column(
        "Pod Labels",
        shown(lambda obj: labels_text(obj.get("template", {}).get("metadata", {}).get("labels"))),
    ),
)
