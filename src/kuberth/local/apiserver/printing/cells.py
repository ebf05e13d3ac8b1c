"""Cells that `kubectl get` shows, named in schema/resources.yaml.

In: an object, or its value at the column's path, and the time in nanoseconds for cells that show an age.
Out: a string or a number.
"""

from __future__ import annotations

from typing import Any, Final

from kuberth.local.apiserver.objects import Obj, name_of
from kuberth.local.apiserver.printing.ages import human_duration, since
from kuberth.local.selecting import selector_text
from kuberth.text.timestamps import parse_timestamp

NONE: Final = "<none>"
UNSET: Final = "<unset>"
_ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def age(obj: Obj, now: int) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def selector_cell(selector: Obj | None) -> str:
    """A label selector, or plain labels, as `kubectl get` takes them."""
    text = selector_text(selector)
    return "<invalid>" if text is None else text or NONE


def since_or_none(time: str | None, now: int) -> str:
    return NONE if time is None else since(time, now)


def since_or_empty(time: str | None, now: int) -> str:
    return since(time, now) if time else ""


def node_status(node: Obj) -> str:
    ready = [each for each in node.get("status", {}).get("conditions", ()) if each.get("type") == "Ready"]
    words = [("Ready" if each.get("status") == "True" else "NotReady") for each in ready] or ["Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def node_roles(node: Obj) -> str:
    labels = node["metadata"].get("labels", {})
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles.add(labels.get("kubernetes.io/role", ""))
    return ",".join(sorted(roles - {""})) or NONE


def pod_ip(pod: Obj) -> str:
    status = pod.get("status", {})
    first = next((each.get("ip", "") for each in status.get("podIPs", ())), "")
    return first or status.get("podIP", "") or NONE


def readiness_gates(pod: Obj) -> str:
    gates = pod.get("spec", {}).get("readinessGates", ())
    if not gates:
        return NONE
    conditions = {
        each.get("type"): each.get("status") for each in pod.get("status", {}).get("conditions", ())
    }
    met = sum(conditions.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def job_status(job: Obj) -> str:
    conditions = job.get("status", {}).get("conditions", ())
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if kind in true:
            return kind
    return "Running"


def job_completions(job: Obj) -> str:
    spec, done = job.get("spec", {}), job.get("status", {}).get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def job_duration(job: Obj, now: int) -> str:
    status = job.get("status", {})
    start = parse_timestamp(status.get("startTime"))
    if start is None:
        return ""
    end = parse_timestamp(status.get("completionTime"))
    return human_duration((now if end is None else end) - start)


def service_external_ip(service: Obj) -> str:
    spec = service.get("spec", {})
    external = spec.get("externalIPs", [])
    kind = spec.get("type")
    if kind == "ExternalName":
        return str(spec.get("externalName", ""))
    if kind == "LoadBalancer":
        ingress = service.get("status", {}).get("loadBalancer", {}).get("ingress", ())
        balanced = [each.get("ip") or each.get("hostname", "") for each in ingress]
        return ",".join([*balanced, *external]) or "<pending>"
    return ",".join(external) or NONE


def modes(modes: Any) -> str:
    return ",".join(short for mode, short in _ACCESS_MODES.items() if mode in (modes or ()))


def phase(obj: Obj) -> str:
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))


def class_of(obj: Obj) -> str:
    annotation = obj["metadata"].get("annotations", {}).get(_BETA_CLASS, "")
    return str(annotation or obj.get("spec", {}).get("storageClassName", ""))


def claim_modes(claim: Obj) -> str:
    if not claim.get("spec", {}).get("volumeName"):
        return ""
    return modes(claim.get("status", {}).get("accessModes"))


def class_name(obj: Obj) -> str:
    marks = obj["metadata"].get("annotations", {})
    keys = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
    default = any(marks.get(key) == "true" for key in keys)
    return name_of(obj) + (" (default)" if default else "")


# An event is printed in either of its two forms.


def _either(event: Obj, *fields: str) -> Any:
    return next((event[field] for field in fields if event.get(field)), None)


def event_first(event: Obj, now: int) -> str:
    return since(_either(event, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime"), now)


def event_last(event: Obj, now: int) -> str:
    if series := event.get("series"):
        return since(series.get("lastObservedTime"), now)
    last = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    return since(last, now) if last else event_first(event, now)


def event_count(event: Obj) -> int:
    if series := event.get("series"):
        return int(series.get("count", 0))
    return int(_either(event, "count", "deprecatedCount") or 1)


def event_object(event: Obj) -> str:
    target = _either(event, "involvedObject", "regarding") or {}
    kind = target.get("kind", "").lower()
    return f"{kind}/{target['name']}" if target.get("name") else kind


def event_source(event: Obj) -> str:
    source = _either(event, "source", "deprecatedSource") or {}
    component = source.get("component") or _either(event, "reportingComponent", "reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def event_path(event: Obj) -> str:
    return str((_either(event, "involvedObject", "regarding") or {}).get("fieldPath", ""))


def event_message(event: Obj) -> str:
    return str(_either(event, "message", "note") or "").strip()


def claim_state(claim: Obj) -> str:
    deleted = bool(claim["metadata"].get("deletionTimestamp"))
    status = claim.get("status", {})
    states = ["deleted"] if deleted else []
    if "allocation" in status:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    elif not deleted:
        states.append("pending")
    return ",".join(states)


def group_status(group: Obj) -> str:
    conditions = {each["type"]: each for each in group.get("status", {}).get("conditions", ())}
    if "DisruptionTarget" in conditions:
        return str(conditions["DisruptionTarget"].get("reason", ""))
    scheduled = conditions.get("PodGroupScheduled")
    if scheduled is None:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


def kernel_version(node: Obj) -> str:
    info = node.get("status", {}).get("nodeInfo", {})
    architecture = info.get("architecture")
    suffix = f" ({architecture})" if architecture else ""
    return (info.get("kernelVersion") or "<unknown>") + suffix
