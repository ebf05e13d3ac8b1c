"""Devices, and compiled selectors with a cache of their results.

In: the driver, attributes and capacities of devices, as in a ResourceSlice, and an expression. Out: whether a
device matches; for a device with equal content from the cache.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache

from kuberth.cel.library.quantities import read_quantity
from kuberth.cel.library.versions import read_version
from kuberth.cel.program import Program, compile_program
from kuberth.cel.static_types import ANY, BOOL, DYN
from kuberth.cel.values import INT_MAX, INT_MIN, Domains, Map, Optional, Value, type_name
from kuberth.errors import CelCompileError, CelRuntimeError

AttributeValue = tuple[str, int | bool | str | tuple[int | bool | str, ...]]
"""The kind ("int", "bool", "string" or "version", or one of these for a list: "ints") and the value; the kind
keeps 1 and true apart.

Any other kind is an attribute that this version of the API does not know: evaluating a selector for such a
device fails, as upstream.
"""


class DeviceContent:
    """A device in an expression; devices with equal content are equal."""

    def __init__(
        self,
        driver: str,
        *,
        attributes: Mapping[str, AttributeValue],
        capacity: Mapping[str, str],
        allow_multiple_allocations: bool = False,
    ) -> None:
        """`attributes` and `capacity` by name as in the slice: "model" or "example.com/model".

        A capacity is the quantity's text ("16Gi"). Neither mapping may change afterwards.
        """
        self.driver = driver
        self.allow_multiple_allocations = allow_multiple_allocations
        self.attributes = attributes
        self.capacity = capacity
        self._key = (
            driver,
            allow_multiple_allocations,
            frozenset(attributes.items()),
            frozenset(capacity.items()),
        )
        self._hash = hash(self._key)
        self._attributes: Domains | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceContent):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"DeviceContent({self.driver!r}, attributes={self.attributes!r}, capacity={self.capacity!r})"


def variable_of(device: DeviceContent) -> Map:
    """The variable `device`; raises `CelRuntimeError` for an attribute without a value.

    Names without a domain belong to the driver's domain.
    """
    if device._attributes is None:
        attributes: dict[Hashable, Value] = {}
        for name, attribute in device.attributes.items():
            domain, bare = _split(name, device.driver)
            attributes.setdefault(domain, Map()).entries[bare] = _attribute(name, attribute)
        device._attributes = Domains(attributes)
    # New quantities each time, because expressions can change them: see QuantityValue.
    capacity: dict[Hashable, Value] = {}
    for name, quantity in device.capacity.items():
        domain, bare = _split(name, device.driver)
        capacity.setdefault(domain, Map()).entries[bare] = read_quantity(quantity)
    return Map(
        {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": device._attributes,
            "capacity": Domains(capacity),
        }
    )


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, bare = name.partition("/")
    return (domain, bare) if slash else (driver, name)


def _attribute(name: str, attribute: AttributeValue) -> Value:
    kind, value = attribute
    if isinstance(value, tuple):
        return [_attribute(name, (kind.removesuffix("s"), each)) for each in value]
    if kind == "int" and type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    if (kind == "bool" and type(value) is bool) or (kind == "string" and type(value) is str):
        return value
    if kind == "version" and type(value) is str:
        try:
            return read_version(value)
        except CelRuntimeError as exc:
            raise CelRuntimeError(f"attribute {name}: parse semantic version: {exc}") from exc
    raise CelRuntimeError(f"attribute {name}: unsupported attribute value")


_SELECTORS = 512
_MAX_ANSWERS = 4096
_NO_BOOL = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "double": "type conversion error from Double to 'bool'",
}


class DeviceSelector:
    """A compiled expression; evaluates it once for all devices with equal content."""

    def __init__(self, expression: str, program: Program) -> None:
        self.expression = expression
        self._program = program
        self._answers: dict[DeviceContent, bool | str] = {}

    def matches(self, device: DeviceContent) -> bool:
        """Whether the device is selected; raises `CelRuntimeError` if the evaluation fails."""
        answer = self._answers.get(device)
        if answer is None:
            answer = self._evaluate(device)
        if isinstance(answer, str):
            raise CelRuntimeError(answer)
        return answer

    def cost(self, device: DeviceContent) -> int:
        """The cost of the evaluation, in the units of the limit; raises like `matches`."""
        return self._run(device)[1]

    def _evaluate(self, device: DeviceContent) -> bool | str:
        answer: bool | str
        try:
            answer = self._run(device)[0]
        except CelRuntimeError as exc:
            answer = str(exc)
        if len(self._answers) >= _MAX_ANSWERS:
            self._answers.clear()
        self._answers[device] = answer
        return answer

    def _run(self, device: DeviceContent) -> tuple[bool, int]:
        value, cost = self._program.run(variable_of(device))
        return _as_bool(value), cost


def _as_bool(value: Value) -> bool:
    inner = value
    while type(inner) is Optional and inner.present:
        inner = inner.value
    if type(inner) is bool:
        return inner
    name = type_name(value)
    problem = _NO_BOOL.get(name, f"type conversion error from {name} to 'bool'")
    raise CelRuntimeError(f"CEL result of type {name} could not be converted to bool: {problem}")


def compile_selector(expression: str, *, lists: bool = False) -> DeviceSelector:
    """Compile a selector; raises `CelCompileError` for an invalid text.

    `lists`: attributes may be lists (the feature gate DRAListTypeAttributes).
    """
    compiled = _compile(expression, lists)
    if isinstance(compiled, str):
        raise CelCompileError(compiled)
    return compiled


@lru_cache(maxsize=_SELECTORS)
def _compile(expression: str, lists: bool) -> DeviceSelector | str:
    """The selector, or the error message, which is cached, too."""
    try:
        program = compile_program(expression, lists=lists)
    except CelCompileError as exc:
        return str(exc)
    result = program.result
    if result is not BOOL and result is not ANY and not (lists and result is DYN):
        return f"must evaluate to bool or the unknown type, not {result.full_name()}"
    return DeviceSelector(expression, program)
