"""Semantic versions."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import COMPILE, RUN, Table, answer

ANSWERS: Table = (
    ('semver("1.2.3") == semver("1.2.3+b")', True),
    ('semver("1.2.3-rc.1").isLessThan(semver("1.2.3"))', True),
    ('semver("1.2.3-rc.1").compareTo(semver("1.2.3-rc.1.1")) == -1', True),
    ('semver("1.2.3-2").compareTo(semver("1.2.3-10")) == -1', True),
    ('semver("1.2.3-a").compareTo(semver("1.2.3-10")) == 1', True),
    ('semver("1.2.3-a").compareTo(semver("1.2.3-b")) == -1', True),
    ('semver("1.2.3-").major() == 1', RUN),
    ('semver("1.2.3-a..b").major() == 1', RUN),
    ('semver("1.2.3-01").major() == 1', RUN),
    ('semver("1.2.3-a_b").major() == 1', RUN),
    ('semver("1.2.3+").major() == 1', RUN),
    ('semver("1.2.3+a_b").major() == 1', RUN),
    ('semver("1.2.3+01").major() == 1', True),
    ('semver("").major() == 1', RUN),
    ('semver("1..3").major() == 1', RUN),
    ('semver("1.02.3").major() == 1', RUN),
    ('semver("1.2.03").major() == 1', RUN),
    ('semver("1.2.x").major() == 1', RUN),
    ('semver("1.x.3").major() == 1', RUN),
    ('semver("18446744073709551615.0.0").major() == -1', True),
    ('semver("18446744073709551616.0.0").major() == -1', RUN),
    ('semver("99999999999999999999999.0.0").major() == -1', RUN),
    ('semver("1.2.3.4").major() == 1', RUN),
    ('semver("1.2.3-rc-1+x.y-z").patch() == 3', True),
    ('semver("v01.02", true) == semver("1.2.0")', True),
    ('semver("1.2-rc", true) == semver("1.2.0")', RUN),
    ('semver("1.2.3-rc", true).minor() == 2', True),
    ('semver("00.0.0", true).major() == 0', True),
    ('semver("vv1", true).major() == 1', RUN),
    ('semver("", true).major() == 1', RUN),
    ('isSemver("1.2.3")', True),
    ('isSemver("v1.2.3")', False),
    ('isSemver("v1.2.3", true)', True),
    ('isSemver("1", true)', True),
    ('isSemver("1", false)', False),
    ("isSemver(1)", COMPILE),
    ('semver("1.2.3") < semver("1.2.4")', COMPILE),
    ('semver("1.2.3") == "1.2.3"', COMPILE),
    ('dyn(semver("1.2.3")) == "1.2.3"', RUN),
    ('dyn(semver("1.2.3")) != "1.2.3"', True),
    ('string(semver("1.2.3")) == "1.2.3"', COMPILE),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
