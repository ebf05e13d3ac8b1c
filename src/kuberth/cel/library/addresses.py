"""IP addresses and networks: ip("10.0.0.1"), cidr("10.0.0.0/8") and their methods."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import ceil

from kuberth.cel.costs import contains_cidr_cost, contains_ip_cost, first_tenth, twice_first_tenth
from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.library.formatting import go_quote
from kuberth.cel.values import LibraryValue, Value
from kuberth.errors import CelRuntimeError

_BITS = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)
_BROADCAST = IPv4Address("255.255.255.255")


@dataclass(slots=True, eq=False)
class IPValue(LibraryValue):
    """An IP address."""

    cel_name = "net.IP"

    address: IPv4Address | IPv6Address

    @property
    def octets(self) -> int:
        return self.address.max_prefixlen // 8

    def same(self, other: IPValue) -> bool:
        return self.address == other.address


@dataclass(slots=True, eq=False)
class CIDRValue(LibraryValue):
    """An address with the length of its network's prefix; bits beyond the prefix are kept."""

    cel_name = "net.CIDR"

    address: IPv4Address | IPv6Address
    bits: int

    @property
    def octets(self) -> int:
        return ceil(self.bits / 8)

    def same(self, other: CIDRValue) -> bool:
        return str(self) == str(other)

    def network(self, bits: int) -> int:
        return int(self.address) >> (self.address.max_prefixlen - bits)

    def __str__(self) -> str:
        return f"{self.address}/{self.bits}"


def _read_address(text: str) -> IPv4Address | IPv6Address:
    quoted = go_quote(text[:100])
    try:
        address = ip_address(text)
    except ValueError as exc:
        problem = f"IP Address {quoted} parse error during conversion from string: ParseAddr({quoted})"
        raise CelRuntimeError(f"{problem}: unable to parse IP") from exc
    if "%" in text:
        raise CelRuntimeError(f"IP address {quoted} with zone value is not allowed")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        raise CelRuntimeError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return address


def _ip(text: str) -> IPValue:
    return IPValue(_read_address(text))


def _cidr(text: str) -> CIDRValue:
    head, slash, tail = text.rpartition("/")
    if not slash or not _BITS.fullmatch(tail):
        raise CelRuntimeError(
            "network address parse error during conversion from string: network address parse error during"
            f" conversion from string: netip.ParsePrefix({go_quote(text[:100])}): bad bits after slash"
        )
    address = _read_address(head)
    if int(tail) > address.max_prefixlen:
        raise CelRuntimeError(
            "network address parse error during conversion from string: network address parse error during"
            f" conversion from string: netip.ParsePrefix({go_quote(text[:100])}): prefix length out of range"
        )
    return CIDRValue(address, int(tail))


def _reads(read: Value, text: str) -> bool:
    try:
        read(text)
    except CelRuntimeError:
        return False
    return True


def _is_canonical(text: str) -> bool:
    return str(_read_address(text)) == text


def _is_link_local_multicast(ip: IPValue) -> bool:
    packed = ip.address.packed
    if ip.address.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 2


def _is_global_unicast(ip: IPValue) -> bool:
    address = ip.address
    if address == _BROADCAST or address.is_unspecified or address.is_loopback or address.is_multicast:
        return False
    return not address.is_link_local


def _contains_ip(cidr: CIDRValue, ip: IPValue) -> bool:
    if cidr.address.version != ip.address.version:
        return False
    return CIDRValue(ip.address, cidr.bits).network(cidr.bits) == cidr.network(cidr.bits)


def _contains_cidr(cidr: CIDRValue, other: CIDRValue) -> bool:
    return cidr.bits <= other.bits and _contains_ip(cidr, IPValue(other.address))


def _masked(cidr: CIDRValue) -> CIDRValue:
    rest = cidr.address.max_prefixlen - cidr.bits
    return CIDRValue(type(cidr.address)(int(cidr.address) >> rest << rest), cidr.bits)


LIBRARY: tuple[Overload, ...] = (
    function("ip(string) -> IP", _ip, cost=first_tenth),
    method("IP.family() -> int", lambda ip: ip.address.version),
    function("ip.isCanonical(string) -> bool", _is_canonical, cost=twice_first_tenth),
    method("IP.isUnspecified() -> bool", lambda ip: ip.address.is_unspecified),
    method("IP.isLoopback() -> bool", lambda ip: ip.address.is_loopback),
    method("IP.isLinkLocalMulticast() -> bool", _is_link_local_multicast),
    method("IP.isLinkLocalUnicast() -> bool", lambda ip: ip.address.is_link_local),
    method("IP.isGlobalUnicast() -> bool", _is_global_unicast),
    function("isIP(string) -> bool", partial(_reads, _ip), cost=first_tenth),
    function("string(IP) -> string", lambda ip: str(ip.address)),
    function("cidr(string) -> CIDR", _cidr, cost=first_tenth),
    method(
        "CIDR.containsIP(string) -> bool",
        lambda cidr, text: _contains_ip(cidr, _ip(text)),
        cost=contains_ip_cost,
    ),
    method("CIDR.containsIP(IP) -> bool", _contains_ip, cost=contains_ip_cost),
    method(
        "CIDR.containsCIDR(string) -> bool",
        lambda cidr, text: _contains_cidr(cidr, _cidr(text)),
        cost=contains_cidr_cost,
    ),
    method("CIDR.containsCIDR(CIDR) -> bool", _contains_cidr, cost=contains_cidr_cost),
    method("CIDR.ip() -> IP", lambda cidr: IPValue(cidr.address)),
    method("CIDR.prefixLength() -> int", lambda cidr: cidr.bits),
    method("CIDR.masked() -> CIDR", _masked),
    function("isCIDR(string) -> bool", partial(_reads, _cidr), cost=first_tenth),
    function("string(CIDR) -> string", str),
)
