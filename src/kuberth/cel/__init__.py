"""CEL expressions that select devices, with kube-scheduler's results.

In: the text of a selector, and the content of a device. Out: true, false, `CelCompileError` for a text that
is not a selector, or `CelRuntimeError` if it cannot be evaluated for the device.
"""

from kuberth.cel.selector import AttributeValue, DeviceContent, DeviceSelector, compile_selector
from kuberth.errors import CelCompileError, CelRuntimeError

__all__ = [
    "AttributeValue",
    "CelCompileError",
    "CelRuntimeError",
    "DeviceContent",
    "DeviceSelector",
    "compile_selector",
]
