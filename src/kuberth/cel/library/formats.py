"""Named formats: format.dns1123Label().validate(text) returns the problems of a text, if any."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from math import ceil

from kuberth.cel.declarations import Overload, function, method
from kuberth.cel.library.urls import url_problem
from kuberth.cel.values import NONE, LibraryValue, Optional, Value, size_of
from kuberth.text import names

_UNIT = "characters"
_UUID = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII
)
_BASE64 = re.compile(
    r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII
)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)

_Check = Callable[[str], list[str]]


@dataclass(slots=True, eq=False)
class NamedFormat(LibraryValue):
    """A format by its name; `regex_size` is the size of upstream's pattern, for the cost."""

    cel_name = "kubernetes.NamedFormat"

    name: str
    regex_size: int
    check: _Check

    def same(self, other: NamedFormat) -> bool:
        return self.name == other.name


def _as_prefix(check: _Check) -> _Check:
    """Make the check of a name accept a prefix, which may end with a dash."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _check_uri(text: str) -> list[str]:
    problem = url_problem(text)
    return [problem] if problem else []


def _is_date(text: str) -> bool:
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    year, month, day = (int(part) for part in found.groups())
    try:
        date(year or 2000, month, day)  # year 0 was a leap year, too
    except ValueError:
        return False
    return True


def _check_date(text: str) -> list[str]:
    return [] if _is_date(text) else ["invalid date"]


def _check_datetime(text: str) -> list[str]:
    parts = text.lower().split("t")
    time = _TIME.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    if time is None or time[1] > "23" or time[2] > "59" or time[3] > "59":
        return ["invalid datetime"]
    return []


def _pattern_check(pattern: re.Pattern[str], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if pattern.fullmatch(text) else [problem]


_LABEL: _Check = partial(names.label_problems, unit=_UNIT)
_SUBDOMAIN: _Check = partial(names.subdomain_problems, unit=_UNIT)
_LABEL_1035: _Check = partial(names.label_1035_problems, unit=_UNIT)
_LABEL_VALUE: _Check = partial(names.label_value_problems, unit=_UNIT)
_QUALIFIED: _Check = partial(names.qualified_name_problems, what="a valid label key", prefix_unit=_UNIT)
_FORMATS = {
    "dns1123Label": NamedFormat("DNS1123Label", 30, _LABEL),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", 60, _SUBDOMAIN),
    "dns1035Label": NamedFormat("DNS1035Label", 30, _LABEL_1035),
    "qualifiedName": NamedFormat("QualifiedName", 60, _QUALIFIED),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", 30, _as_prefix(_LABEL)),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", 60, _as_prefix(_SUBDOMAIN)),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", 30, _as_prefix(_LABEL_1035)),
    "labelValue": NamedFormat("LabelValue", 40, _LABEL_VALUE),
    "uri": NamedFormat("URI", 1103, _check_uri),
    "uuid": NamedFormat("uuid", 70, _pattern_check(_UUID, "does not match the UUID format")),
    "byte": NamedFormat("byte", 84, _pattern_check(_BASE64, "invalid base64")),
    "date": NamedFormat("date", 71, _check_date),
    "datetime": NamedFormat("datetime", 71, _check_datetime),
}


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = named.check(text)
    return Optional(problems) if problems else NONE


def _validation_cost(*args: Value) -> int:
    if not isinstance(args[0], NamedFormat):
        return 1
    return ceil((1.0 + size_of(args[1])) * 0.1) * ceil(args[0].regex_size * 0.25)


def _named(name: str) -> Optional:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _constant(value: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: value


LIBRARY: tuple[Overload, ...] = (
    method("NamedFormat.validate(string) -> optional(list(string))", _validate, cost=_validation_cost),
    function("format.named(string) -> optional(NamedFormat)", _named),
    *(function(f"format.{name}() -> NamedFormat", _constant(value)) for name, value in _FORMATS.items()),
)
