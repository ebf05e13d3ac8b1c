"""Devices that look alike are equal, whatever order their attributes came in."""

from __future__ import annotations

from kuberth.cel import DeviceContent


def test_equal_content_is_equal() -> None:
    one = DeviceContent("d", attributes={"a": ("int", 1), "b": ("string", "x")}, capacity={"m": "1Gi"})
    other = DeviceContent("d", attributes={"b": ("string", "x"), "a": ("int", 1)}, capacity={"m": "1Gi"})
    assert one == other
    assert hash(one) == hash(other)


def test_one_is_not_true() -> None:
    one = DeviceContent("d", attributes={"a": ("int", 1)}, capacity={})
    other = DeviceContent("d", attributes={"a": ("bool", True)}, capacity={})
    assert one != other
