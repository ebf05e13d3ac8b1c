"""The names that a selector can use: the variable `device` with its fields, and the types."""

from __future__ import annotations

from kuberth.cel.static_types import (
    ANY,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NAMED,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)

DEVICE = NAMED["Device"]


def device_fields(*, lists: bool) -> dict[str, Type]:
    """The fields of a device. Attributes that may be lists are dynamic, so that loops accept them."""
    return {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN if lists else ANY)),
        "capacity": map_of(STRING, map_of(STRING, NAMED["Quantity"])),
    }


VARIABLES: dict[str, Type] = {"device": DEVICE}
TYPE_NAMES: dict[str, Type] = {
    named.name: type_of(named)
    for named in (
        BOOL,
        BYTES,
        DOUBLE,
        DURATION,
        INT,
        list_of(parameter("A")),
        map_of(parameter("A"), parameter("B")),
        NULL,
        STRING,
        TIMESTAMP,
        TYPE,
        UINT,
        NAMED["IP"],
        NAMED["CIDR"],
        optional_of(parameter("V")),
    )
}
