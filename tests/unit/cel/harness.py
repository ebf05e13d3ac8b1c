"""Selectors asked about one device, for tables of expressions and their answers.

The answers in the tables are kube-scheduler's (v1.36.4), asked about the same device.
"""

from __future__ import annotations

from kuberth.cel import CelCompileError, CelRuntimeError, DeviceContent, compile_selector

COMPILE = "refused when compiled"
RUN = "fails when asked"

Answer = bool | str
Table = tuple[tuple[str, Answer], ...]

GPU = "gpu.example.com"
DEVICE = DeviceContent(
    GPU,
    attributes={
        "model": ("string", "a100"),
        "index": ("int", 3),
        "healthy": ("bool", True),
        "driverVersion": ("version", "1.2.3"),
        "name": ("string", "Grüße-a,b"),
        "resource.kubernetes.io/pcieRoot": ("string", "pci1"),
        "big": ("int", 9223372036854775807),
        "neg": ("int", -5),
        "pre": ("version", "1.2.3-rc.1+b5"),
        "empty": ("string", ""),
    },
    capacity={"memory": "40Gi", "cores": "16", "bw": "12345678901234567890", "frac": "1500m"},
)


def answer(expression: str, device: DeviceContent = DEVICE) -> Answer:
    try:
        selector = compile_selector(expression)
    except CelCompileError:
        return COMPILE
    try:
        return selector.matches(device)
    except CelRuntimeError:
        return RUN
