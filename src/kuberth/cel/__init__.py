"""CEL expressions that select devices, answered as kube-scheduler answers them.

In: the text of a selector, and what it may ask about a device. Out: yes, no, or an error that says whether
the text is wrong (`CelCompileError`) or has no answer for that device (`CelRuntimeError`).
"""

from kuberth.cel.device import AttributeValue, DeviceContent
from kuberth.cel.selector import DeviceSelector, compile_selector
from kuberth.errors import CelCompileError, CelRuntimeError

__all__ = [
    "AttributeValue",
    "CelCompileError",
    "CelRuntimeError",
    "DeviceContent",
    "DeviceSelector",
    "compile_selector",
]
