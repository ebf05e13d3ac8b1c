"""Which devices a request selects: by its class and its own selectors, and by where the device can be used.

In: a request and a candidate. Out: yes or no, worked out once per distinct content of devices; an
`AllocationError` if a selector cannot be read or has no answer.
"""

from __future__ import annotations

from typing import Final

from kuberth.cel import DeviceContent, compile_selector
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.plugins.devices.sites import DeviceCandidate
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, WantedRequest

_MOST_ANSWERS: Final = 1 << 16


def selects(request: WantedRequest, candidate: DeviceCandidate) -> bool:
    """Whether the request would take the device, were it free."""
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
