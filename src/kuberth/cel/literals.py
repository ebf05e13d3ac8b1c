"""Values of literals.

In: the text of a number or string token. Out: its value; `ValueError` with CEL's message for an invalid one.
"""

from __future__ import annotations

from kuberth.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE = {
    "a": 7,
    "b": 8,
    "f": 12,
    "n": 10,
    "r": 13,
    "t": 9,
    "v": 11,
    "\\": 92,
    "'": 39,
    '"': 34,
    "`": 96,
    "?": 63,
}
_HEX_DIGITS = {"x": 2, "X": 2, "u": 4, "U": 8}
_LONGEST_NUMBER = 4000  # Python refuses to parse longer ones, which exceed 64 bits anyway


def read_int(text: str, *, negative: bool) -> int:
    value = _magnitude(text)
    value = -value if negative else value
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def read_uint(text: str) -> Uint:
    value = _magnitude(text[:-1])
    if value > UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(value)


def _magnitude(text: str) -> int:
    if text.startswith("0x"):
        return int(text[2:], 16)
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) < _LONGEST_NUMBER else UINT_MAX + 1


def read_double(text: str, *, negative: bool) -> float:
    value = float(text)
    if value == float("inf"):
        raise ValueError("invalid double literal")
    return -value if negative else value


def read_string(token: str) -> str:
    body, raw = _body(token)
    if raw or "\\" not in body:
        return body
    return "".join(chr(code) for code in _codes(body, octets=False))


def read_bytes(token: str) -> bytes:
    body, raw = _body(token[1:])
    if raw or "\\" not in body:
        return body.encode("utf-8", "surrogatepass")
    out = bytearray()
    for code in _codes(body, octets=True):
        if code < 0:  # an escaped octet
            out.append(-code - 1)
        else:
            out += chr(code).encode("utf-8", "surrogatepass")
    return bytes(out)


def _body(token: str) -> tuple[str, bool]:
    token = token.replace("\r\n", "\n").replace("\r", "\n")
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return token[width:-width], raw


def _codes(body: str, *, octets: bool) -> list[int]:
    """Code points; in bytes an escaped octet is -1 - octet, to distinguish it from a character."""
    codes: list[int] = []
    position = 0
    while position < len(body):
        char = body[position]
        position += 1
        if char != "\\":
            codes.append(ord(char))
            continue
        char = body[position]
        position += 1
        if char in _SIMPLE:
            codes.append(_SIMPLE[char])
            continue
        if char in _HEX_DIGITS:
            if octets and char in "uU":
                raise ValueError("unable to unescape string")
            digits = _HEX_DIGITS[char]
            code = int(body[position : position + digits], 16)
            position += digits
        else:
            code = int(body[position - 1 : position + 2], 8)
            position += 2
        if octets:
            code = -1 - code
        elif code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise ValueError("invalid unicode code point")
        codes.append(code)
    return codes
