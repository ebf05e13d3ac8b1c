"""Cells that `kubectl get` shows, named in schema/resources.yaml.

In: an object, or its value at the column's path, and the time in nanoseconds for cells that show an age.
Out: a string or a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from kuberth.clock import NANOSECONDS
from kuberth.local.apiserver.objects import Obj, annotation_of, selector_text
from kuberth.text.timestamps import parse_timestamp


def since(text: Any, now_ns: int) -> str:
    """An age in kubectl's format."""
    then = parse_timestamp(text)
    return "<unknown>" if then is None else human_duration(now_ns - then)


def human_duration(nanoseconds: int) -> str:
    """At most two units, fewer for longer ages, with upstream's rounding."""
    seconds = int(nanoseconds / NANOSECONDS)
    if seconds < -1:
        return "<invalid>"
    if seconds < 0:
        return "0s"
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 24 * 8:
        return _two(days, "d", hours % 24, "h")
    if hours < 24 * 365 * 2:
        return f"{days}d"
    if hours < 24 * 365 * 8:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


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


_MOST_LISTED: Final = 3
_MOST_METRICS: Final = 2
_BALANCER_WIDTH: Final = 16


def age(obj: Obj, now: int) -> str:
    return since(obj["metadata"].get("creationTimestamp"), now)


def selector_cell(selector: Obj | None) -> str:
    """A label selector, or plain labels, as `kubectl get` takes them."""
    text = selector_text(selector)
    return "<invalid>" if text is None else text or NONE


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


def class_of(obj: Obj) -> str:
    return str(annotation_of(obj, _BETA_CLASS) or obj.get("spec", {}).get("storageClassName", ""))


def claim_modes(claim: Obj) -> str:
    if not claim.get("spec", {}).get("volumeName"):
        return ""
    return modes(claim.get("status", {}).get("accessModes"))


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


def shown_seconds(seconds: int) -> str:
    return human_duration(seconds * NANOSECONDS)


def param_ref(reference: Obj | None) -> str:
    reference = reference or {}
    if name := reference.get("name"):
        return f"{reference.get('namespace') or '*'}/{name}"
    return selector_cell(reference["selector"]) if "selector" in reference else UNSET


def endpoint_addresses(subsets: Sequence[Obj] | None) -> str:
    found: list[str] = []
    for subset in subsets or ():
        ips = [address.get("ip", "") for address in subset.get("addresses", ())]
        ips = [f"[{ip}]" if ":" in ip else ip for ip in ips]
        ports = subset.get("ports", ())
        found += [f"{ip}:{port.get('port', 0)}" for port in ports for ip in ips] if ports else ips
    return _listed(found, empty=NONE)


def slice_ports(ports: Sequence[Obj] | None) -> str:
    return _listed([str(port.get("port", port.get("name") or "*")) for port in ports or ()])


def slice_addresses(endpoints: Sequence[Obj] | None) -> str:
    return _listed([address for each in endpoints or () for address in each.get("addresses", ())])


# A pod's READY, STATUS and RESTARTS, computed as upstream computes them.

_GATED: Final = "SchedulingGated"
_LOST_NODE: Final = "NodeLost"


class PodSummary(NamedTuple):
    ready: int
    containers: int
    reason: str
    restarts: int
    last_restart_ns: int | None


def pod_ready(pod: Obj) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.containers}"


def pod_status(pod: Obj) -> str:
    return summarize(pod).reason


def pod_restarts(pod: Obj, now: int) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.last_restart_ns is not None:
        return f"{summary.restarts} ({human_duration(now - summary.last_restart_ns)} ago)"
    return str(summary.restarts)


def summarize(pod: Obj) -> PodSummary:
    spec, status = pod.get("spec", {}), pod.get("status", {})
    conditions = {each.get("type"): each for each in status.get("conditions", ())}
    reason = status.get("reason") or status.get("phase", "")
    if conditions.get("PodScheduled", {}).get("reason") == _GATED:
        reason = _GATED
    sidecars = {
        each.get("name") for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"
    }
    containers = len(spec.get("containers", ())) + len(sidecars)
    ready = restarts = sidecar_restarts = 0
    last: list[int] = []
    sidecar_last: list[int] = []
    initializing = False
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        restarts += container.get("restartCount", 0)
        last += _ended(container)
        is_sidecar = container.get("name") in sidecars
        if is_sidecar:
            sidecar_restarts += container.get("restartCount", 0)
            sidecar_last += _ended(container)
        state = container.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting", {})
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if is_sidecar and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            reason = f"Init:{_exit_reason(terminated)}"
        elif waiting.get("reason", "PodInitializing") != "PodInitializing":
            reason = f"Init:{waiting['reason']}"
        else:
            reason = f"Init:{index}/{len(spec.get('initContainers', ()))}"
        initializing = True
        break
    if not initializing or conditions.get("Initialized", {}).get("status") == "True":
        restarts, last = sidecar_restarts, sidecar_last
        running = False
        failure = ""
        for container in reversed(status.get("containerStatuses", ())):
            restarts += container.get("restartCount", 0)
            last += _ended(container)
            state = container.get("state", {})
            terminated = state.get("terminated")
            if state.get("waiting", {}).get("reason"):
                reason = state["waiting"]["reason"]
            elif terminated is not None:
                reason = _exit_reason(terminated)
                if terminated.get("exitCode", 0) != 0:
                    failure = reason
            elif container.get("ready") and "running" in state:
                running = True
                ready += 1
        if reason == "Completed":
            if running and conditions.get("Ready", {}).get("status") == "True":
                reason = "Running"
            elif failure:
                reason = failure
            elif running:
                reason = "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == _LOST_NODE:
            reason = "Unknown"
        elif status.get("phase") not in ("Succeeded", "Failed"):
            reason = "Terminating"
    return PodSummary(ready, containers, reason, restarts, max(last, default=None))


def _ended(container: Obj) -> list[int]:
    ended = parse_timestamp(container.get("lastState", {}).get("terminated", {}).get("finishedAt"))
    return [] if ended is None else [ended]


def _exit_reason(terminated: Obj) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
