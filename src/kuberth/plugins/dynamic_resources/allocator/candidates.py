"""Which devices a request selects: by its class, its own selectors, and the device's node selection.

In: a request and a candidate. Out: a boolean, computed once per distinct content of devices;
`AllocationError` if a selector is invalid or fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kuberth.cel import DeviceContent, compile_selector
from kuberth.errors import CelCompileError, CelRuntimeError
from kuberth.plugins.devices.sites import DeviceCandidate
from kuberth.plugins.dynamic_resources.allocator.demand import AllocationError, WantedRequest

_MOST_ANSWERS: Final = 1 << 16


def selects(
    request: WantedRequest, candidate: DeviceCandidate, *, between: Callable[[], None] | None = None
) -> bool:
    """Whether the request selects the device, allocated or not.

    `between` is called between two selectors. If it raises, the next call for this device continues there.
    """
    if not candidate.device.is_given:
        return False
    content = candidate.device.content
    answer = request.answers.get(content)
    if answer is None:
        answer = _ask(request, content, between)
    return answer and candidate.is_reachable


def _ask(request: WantedRequest, content: DeviceContent, between: Callable[[], None] | None) -> bool:
    if len(request.answers) >= _MOST_ANSWERS:
        request.answers.clear()
    answer, begin = True, request.matched.pop(content, 0)
    for index, each in enumerate(request.selectors[begin:], begin):
        if index > begin and between is not None:
            request.matched[content] = index
            between()
        try:
            answer = compile_selector(each.expression, lists=each.lists).matches(content)
        except CelCompileError as exc:
            raise AllocationError(f"{each.prefix}CEL compile error: {exc}", claim=each.claim) from exc
        except CelRuntimeError as exc:
            raise AllocationError(f"{each.prefix}CEL runtime error: {exc}", claim=each.claim) from exc
        if not answer:
            break
    request.matched.pop(content, None)
    request.answers[content] = answer
    return answer
