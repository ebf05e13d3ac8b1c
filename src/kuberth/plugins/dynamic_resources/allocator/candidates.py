"""Which devices a request selects: by its class, its own selectors, and the device's node selection.

In: a request and a candidate. Out: a boolean, computed once per distinct content of devices;
`AllocationError` if a selector is invalid or fails.
"""

from __future__ import annotations

from typing import Final

from kuberth.cel import DeviceContent, compile_selector
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.plugins.devices.sites import DeviceCandidate
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, WantedRequest

_MOST_ANSWERS: Final = 1 << 16


def selects(request: WantedRequest, candidate: DeviceCandidate) -> bool:
    """Whether the request selects the device, allocated or not."""
    if not candidate.device.is_given:
        return False
    content = candidate.device.content
    answer = request.answers.get(content)
    if answer is None:
        answer = _ask(request, content)
    return answer and candidate.is_reachable


def _ask(request: WantedRequest, content: DeviceContent) -> bool:
    if len(request.answers) >= _MOST_ANSWERS:
        request.answers.clear()
    answer = True
    for each in request.selectors:
        try:
            answer = compile_selector(each.expression, lists=each.lists).matches(content)
        except CelCompileError as exc:
            raise AllocationError(f"{each.prefix}CEL compile error: {exc}", claim=each.claim) from exc
        except CelRuntimeError as exc:
            raise AllocationError(f"{each.prefix}CEL runtime error: {exc}", claim=each.claim) from exc
        if not answer:
            break
    request.answers[content] = answer
    return answer
