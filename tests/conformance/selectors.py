"""Device selectors: what each expression of a case answers for the case's device.

In: a case of the kind `cel`. Out: the expressions that answer otherwise than kube-scheduler (true, false, an
error before or while running), and, apart from that, how many errors have its very words and how many costs
are equal.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from kuberth.cel import CelCompileError, CelRuntimeError, DeviceContent, compile_selector
from tests.conformance.cases import Case


def device_of(case: Case) -> DeviceContent:
    device = case["device"]
    return DeviceContent(
        case["driver"],
        attributes={name: next(iter(value.items())) for name, value in device.get("attributes", {}).items()},
        capacity={name: value["value"] for name, value in device.get("capacity", {}).items()},
        allow_multiple_allocations=bool(device.get("allowMultipleAllocations")),
    )


def answer(expression: str, device: DeviceContent) -> dict[str, Any]:
    """As the corpus writes it."""
    try:
        selector = compile_selector(expression)
    except CelCompileError as exc:
        return {"compileError": str(exc)}
    try:
        return {"match": selector.matches(device), "cost": selector.cost(device)}
    except CelRuntimeError as exc:
        return {"runtimeError": str(exc)}


def differing_answers(case: Case) -> list[str]:
    """The expressions with another answer, as readable lines."""
    device = device_of(case)
    lines: list[str] = []
    for expression, expected in zip(case["expressions"], case["expect"]["cel"], strict=True):
        given = answer(expression, device)
        if not expected.get("varies") and _kind(given) != _kind(expected):
            lines.append(f"{expression}: expected {expected!r}, got {given!r}")
    return lines


def tally(case: Case) -> Counter[str]:
    """Counts of expressions, and of answers, words and costs that are equal."""
    device = device_of(case)
    counts: Counter[str] = Counter()
    for expression, expected in zip(case["expressions"], case["expect"]["cel"], strict=True):
        if expected.get("varies"):
            continue
        given = answer(expression, device)
        counts["expressions"] += 1
        counts["answers"] += _kind(given) == _kind(expected)
        for name, what in (("compileError", "texts"), ("runtimeError", "texts"), ("cost", "costs")):
            if name in expected:
                counts[what] += 1
                counts[f"equal {what}"] += expected[name] == given.get(name)
    return counts


def _kind(answer: dict[str, Any]) -> str | bool:
    if "match" in answer:
        return bool(answer["match"])
    return "compileError" if "compileError" in answer else "runtimeError"
