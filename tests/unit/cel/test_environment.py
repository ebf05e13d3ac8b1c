"""What a device shows."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ("device.attributes.all(d, size(device.attributes[d]) > 0)", True),
    ("device.attributes.exists(d, m, m.size() > 5)", True),
    ("device == device", True),
    ("device.attributes == device.attributes", True),
    ("device.capacity == device.capacity", True),
    ("device.attributes == {}", False),
    ("{} == device.attributes", False),
    ('{"gpu.example.com": {}} == device.attributes', False),
    ('device.attributes["gpu.example.com"] == device.attributes["nope"]', False),
    ('device.attributes["nope"] == {}', True),
    ('"nope" in device.attributes', False),
    ("1 in device.attributes", COMPILE),
    ("dyn(1) in device.attributes", False),
    ("device.attributes[1] == {}", COMPILE),
    ("device.attributes[dyn(1)] == {}", True),
    ('device.capacity["nope"].x == quantity("1")', RUN),
    ("device.capacity[dyn(1)] == {}", True),
    ('device.attributes["gpu.example.com"][dyn(1)] == 1', RUN),
    ('device.capacity["gpu.example.com"][dyn(1)] == 1', COMPILE),
    ('device.attributes["gpu.example.com"].model.size() == 4', True),
    ('size(device.attributes["gpu.example.com"].index) == 4', RUN),
    (
        ('device.attributes["gpu.example.com"].driverVersion == device.attributes["gpu.example.com"].pre'),
        False,
    ),
    ('device.attributes["gpu.example.com"].driverVersion != "1.2.3"', True),
    ('device.attributes["gpu.example.com"].driverVersion == "1.2.3"', RUN),
    ('"1.2.3" == device.attributes["gpu.example.com"].driverVersion', False),
    ('[device.attributes["gpu.example.com"].driverVersion] == ["1.2.3"]', True),
    ('[dyn(device.attributes["gpu.example.com"].driverVersion)] == [dyn("1.2.3")]', True),
    ('{"a": device.attributes["gpu.example.com"].driverVersion} == {"a": "1.2.3"}', True),
    ('device.attributes["gpu.example.com"].driverVersion == null', False),
    ('null == device.attributes["gpu.example.com"].driverVersion', False),
    ('device.attributes["gpu.example.com"].driverVersion.major() == 1', True),
    ('device.attributes["gpu.example.com"].model.major() == 1', RUN),
    ('device.attributes["gpu.example.com"].index.compareTo(semver("1.2.3")) == 1', RUN),
    ('device.attributes["gpu.example.com"].driverVersion.compareTo(quantity("1")) == 1', RUN),
    ('device.attributes["gpu.example.com"].healthy', True),
    ('device.attributes["gpu.example.com"].model', RUN),
    ('device.attributes["gpu.example.com"].index', RUN),
    ('device.attributes["gpu.example.com"].driverVersion', RUN),
    ('device.attributes["gpu.example.com"]', COMPILE),
    ('device.attributes["nope"].x', RUN),
    ('device.capacity["gpu.example.com"].memory', COMPILE),
    ("device.driver", COMPILE),
    ("dyn(true)", COMPILE),
    ('dyn(device.attributes["gpu.example.com"].healthy)', COMPILE),
    ('device.attributes["gpu.example.com"].model.includes("a100")', True),
    ("[1, 2].includes(2)", True),
    ('[1, 2].includes("a")', False),
    ("device.driver.includes(1)", False),
    ('device.attributes["gpu.example.com"].healthy.includes(true)', True),
    ("dyn(1).allowed()", RUN),
    ('dyn(1).path("/").check("get").allowed()', RUN),
    ('"a".path("b")', COMPILE),
    ('authorizer.path("/")', COMPILE),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
