"""The order in which the fields of a manager are written."""

from __future__ import annotations

from kuberth.local.apiserver.patching.field_sets import in_order


def test_fields_come_by_name_then_entries_by_the_values_of_their_keys() -> None:
    marks = ['k:{"port":443}', "f:b", 'k:{"port":80}', ".", "f:a", 'k:{"port":80,"protocol":"TCP"}']
    assert list(in_order({mark: {} for mark in marks})) == [
        ".",
        "f:a",
        "f:b",
        'k:{"port":80}',
        'k:{"port":80,"protocol":"TCP"}',
        'k:{"port":443}',
    ]


def test_entries_without_their_key_come_first() -> None:
    """An item that was patched in need not have the key of the list."""
    assert list(in_order({'k:{"name":""}': {}, "k:{}": {}})) == ["k:{}", 'k:{"name":""}']
