"""LimitRanges: bounds and defaults for the resources of containers, pods and claims.

In: a new pod or claim, and the limit ranges of its namespace. Out: the pod with defaults, or a 403
in upstream's words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kuberth.api.quantity import Quantity, parse
from kuberth.local.apiserver.objects import Obj, name_of, namespace_of
from kuberth.local.apiserver.resources import ServedResource
from kuberth.local.apiserver.rules.pod_amounts import Amounts, pod_amounts
from kuberth.local.apiserver.rules.pod_defaults import all_containers
from kuberth.local.apiserver.rules.write_context import WriteContext
from kuberth.local.apiserver.status_errors import forbidden

LIMIT_RANGES: Final = "limitranges"
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_PODS: Final = "pods"
_CLAIMS: Final = "persistentvolumeclaims"
_DEFAULTS: Final = (("requests", "defaultRequest", "request"), ("limits", "default", "limit"))
"""Field of a container, field of a limit, and the word for it."""


def set_defaults(pod: Obj, context: WriteContext) -> None:
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


def check(row: ServedResource, new: Obj, old: Obj | None, context: WriteContext) -> None:
    """StatusError 403 if an object requests too little or too much; existing pods are not checked."""
    if row.stored_as not in (_PODS, _CLAIMS) or (old is not None and row.stored_as == _PODS):
        return
    judge = _judge_pod if row.stored_as == _PODS else _judge_claim
    for limit_range in context.store.latest_list(LIMIT_RANGES, namespace=namespace_of(new)):
        problems = list(dict.fromkeys(each for limit in _limits(limit_range) for each in judge(new, limit)))
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


def _judge_pod(pod: Obj, limit: Obj) -> Iterator[str]:
    spec = pod.get("spec", {})
    if limit.get("type") == "Container":
        for container in all_containers(spec):
            resources = container.get("resources", {})
            asked, most = (
                {name: parse(text) for name, text in resources.get(field, {}).items()}
                for field in ("requests", "limits")
            )
            yield from _judge(limit, asked, most)
    elif limit.get("type") == "Pod":
        yield from _judge(limit, pod_amounts(spec, "requests"), pod_amounts(spec, "limits"))


def _judge_claim(claim: Obj, limit: Obj) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = (claim.get("spec", {}).get("resources") or {}).get("requests", {})
    asked = {name: parse(text) for name, text in requests.items()}
    # A claim has no limits: its request is compared with the maximum.
    yield from _judge({**limit, "max": {}}, asked, {})
    for name, text in limit.get("max", {}).items():
        yield from _too_much(
            f"maximum {name} usage per {limit['type']} is {text}", parse(text), asked.get(name), "request"
        )


def _judge(limit: Obj, requests: Amounts, limits: Amounts) -> Iterator[str]:
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
        over = list(_too_much(rule, ceiling, limits.get(name), "limit"))
        if not over and name in requests:
            over = list(_too_much(rule, ceiling, requests[name], "request"))
        yield from over
    for name, text in limit.get("maxLimitRequestRatio", {}).items():
        yield from _judge_ratio(
            f"{name} max limit to request ratio per {kind} is {text}",
            parse(text),
            requests.get(name),
            limits.get(name),
        )


def _too_much(rule: str, ceiling: Quantity, found: Quantity | None, word: str) -> Iterator[str]:
    if found is None:
        yield f"{rule}.  No {word} is specified"
    elif ceiling < found:
        yield f"{rule}, but {word} is {found}"


def _judge_ratio(rule: str, ratio: Quantity, asked: Quantity | None, most: Quantity | None) -> Iterator[str]:
    if not asked:
        yield f"{rule}, but no request is specified or request is 0"
    elif not most:
        yield f"{rule}, but no limit is specified or limit is 0"
    elif most.milli_value() * 1000 > ratio.milli_value() * asked.milli_value():
        yield f"{rule}, but provided ratio is {most.milli_value() / asked.milli_value():f}"
