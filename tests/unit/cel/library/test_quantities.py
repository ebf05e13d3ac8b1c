"""Quantities, with the oddities of their two forms."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ('quantity("1Gi") == quantity("1024Mi")', True),
    ('quantity("1Gi").isGreaterThan(quantity("1G"))', True),
    ('quantity("1") == quantity("1").add(quantity("0"))', RUN),
    ('quantity("1").add(quantity("0")) == quantity("1")', True),
    ('quantity("1").add(1) == quantity("2")', True),
    ('quantity("1").add(1) != quantity("2")', False),
    ('quantity("2") != quantity("1").add(1)', True),
    ('quantity("1").add(1).isGreaterThan(quantity("1"))', True),
    ('quantity("1").sub(2).compareTo(quantity("-1")) == 0', True),
    ('quantity("1500m").asInteger() == 1', RUN),
    ('quantity("1000m").asInteger() == 1', RUN),
    ('quantity("1000m").isInteger()', False),
    ('quantity("1e3").asInteger() == 1000', True),
    ('quantity("1k").asInteger() == 1000', True),
    ('quantity("0.5Gi").asInteger() == 536870912', RUN),
    ('quantity("0.5Gi").isInteger()', False),
    ('quantity("9223372036854775807").asInteger() == 9223372036854775807', RUN),
    ('quantity("9223372036854775808").asInteger() == 9223372036854775807', RUN),
    ('quantity("999999999999999999").asInteger() == 999999999999999999', True),
    ('quantity("1E").asInteger() == 1000000000000000000', True),
    ('quantity("10E").asInteger() == 1', RUN),
    ('quantity("0").isInteger()', True),
    ('quantity("0m").isInteger()', False),
    ('quantity("-5").asInteger() == -5', True),
    ('quantity("1500m").asApproximateFloat() == 1.5', True),
    ('quantity("1Ki").asApproximateFloat() == 1024.0', True),
    ('quantity("0.1").asApproximateFloat() == 0.1', True),
    ('quantity("1n").asApproximateFloat() == 1e-9', True),
    ('quantity("12345678901234567890").asApproximateFloat() > 1e19', True),
    ('quantity("0.5Gi").asApproximateFloat() == 536870912.0', True),
    ('sign(quantity("-1")) == -1', True),
    ('sign(quantity("0")) == 0', True),
    ('quantity("x").isInteger()', RUN),
    ('quantity("1x").isInteger()', RUN),
    ('quantity("").isInteger()', RUN),
    ('quantity("1 ").isInteger()', RUN),
    ('quantity("1Kii").isInteger()', RUN),
    ('quantity(".").isInteger()', True),
    ('quantity(".5").isInteger()', False),
    ('quantity("5.").isInteger()', True),
    ('quantity("+5").isInteger()', True),
    ('quantity("--5").isInteger()', RUN),
    ('quantity("1e").isInteger()', RUN),
    ('quantity("1e3e").isInteger()', RUN),
    ('quantity("1E3").asInteger() == 1000', True),
    ('quantity("1e-3").asApproximateFloat() == 0.001', True),
    ('quantity("1e100").isInteger()', False),
    ('quantity("1e2000000000").isInteger()', False),
    ('isQuantity("1e2000000000")', True),
    ('isQuantity("1Gi")', True),
    ('isQuantity("x")', False),
    ('isQuantity("1.5.5")', False),
    ('quantity("1") < quantity("2")', COMPILE),
    ('quantity("1") == 1', COMPILE),
    ('dyn(quantity("1")) == 1', RUN),
    ('1 == dyn(quantity("1"))', False),
    ('quantity("1").add("1")', COMPILE),
    ('quantity("1").add(1.5)', COMPILE),
    ('quantity("1").compareTo(1) == 0', COMPILE),
    ('device.capacity["gpu.example.com"].memory == quantity("40Gi")', True),
    ('quantity("40Gi") == device.capacity["gpu.example.com"].memory', True),
    ('device.capacity["gpu.example.com"].frac.asApproximateFloat() == 1.5', True),
    ('device.capacity["gpu.example.com"].cores.asInteger() == 16', True),
    (
        (
            'device.capacity["gpu.example.com"].cores.compareTo(device.capacity["gpu.example.com"'
            '].bw) == -1 && device.capacity["gpu.example.com"].cores.isInteger()'
        ),
        False,
    ),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
