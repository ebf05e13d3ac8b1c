"""Named formats."""

from __future__ import annotations

import pytest

from tests.unit.cel.harness import Table, answer

ANSWERS: Table = (
    ('format.dns1123Label().validate("abc").hasValue()', False),
    ('format.dns1123Label().validate("a.b").value() == ["must not contain dots"]', True),
    ('format.dns1123Label().validate("A").value().size() == 1', True),
    ('format.dns1123Label().validate("A").value()[0].contains("lowercase RFC 1123 label")', True),
    ('format.dns1123Label().validate("").hasValue()', True),
    (
        (
            'format.dns1123Label().validate("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
            'aaaaaaaaaaaaaaaaa").value() == ["must be no more than 63 bytes"]'
        ),
        False,
    ),
    ('format.dns1123Subdomain().validate("a.b-c").hasValue()', False),
    ('format.dns1035Label().validate("1a").hasValue()', True),
    ('format.qualifiedName().validate("a.b/C_d").hasValue()', False),
    ('format.qualifiedName().validate("a/b/c").value().size() == 1', True),
    ('format.qualifiedName().validate("/b").value() == ["prefix part must be non-empty"]', True),
    ('format.qualifiedName().validate("").value().size() == 2', True),
    ('format.dns1123LabelPrefix().validate("abc-").hasValue()', False),
    ('format.dns1123Label().validate("abc-").hasValue()', True),
    ('format.dns1123SubdomainPrefix().validate("a.b-").hasValue()', False),
    ('format.dns1035LabelPrefix().validate("-").hasValue()', True),
    ('format.labelValue().validate("").hasValue()', False),
    ('format.labelValue().validate("a b").hasValue()', True),
    ('format.uri().validate("https://a").hasValue()', False),
    ('format.uri().validate("a").hasValue()', True),
    ('format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue()', False),
    ('format.uuid().validate("123E4567E89B12D3A456426614174000").hasValue()', False),
    ('format.uuid().validate("x").value() == ["does not match the UUID format"]', True),
    ('format.byte().validate("aGVsbG8=").hasValue()', False),
    ('format.byte().validate("").hasValue()', True),
    ('format.byte().validate("a").hasValue()', True),
    ('format.date().validate("2021-01-31").hasValue()', False),
    ('format.date().validate("2021-02-31").hasValue()', True),
    ('format.datetime().validate("2021-01-31T00:00:00Z").hasValue()', False),
    ('format.datetime().validate("2021-01-31t23:59:59.5+01:00").hasValue()', False),
    ('format.datetime().validate("2021-01-31T24:00:00Z").hasValue()', True),
    ('format.named("dns1123Label").hasValue()', True),
    ('format.named("nope").hasValue()', False),
    ('format.named("dns1123Label").value() == format.dns1123Label()', True),
    ('format.named("dns1123Label").value().validate("a").hasValue()', False),
)


@pytest.mark.parametrize(("expression", "expected"), ANSWERS)
def test_answers(expression: str, expected: bool | str) -> None:
    assert answer(expression) == expected
