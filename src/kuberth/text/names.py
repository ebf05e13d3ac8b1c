"""Validates names, label keys and label values.

In: a text. Out: its problems, in the words of Kubernetes; empty if there are none. `unit` is the word for the
bytes of a name, which differs between Kubernetes' packages.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

GENERATE_ATTEMPTS: Final = 8
_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_PREFIX: Final = 58

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE: Final = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _problems(text: str, *, longest: int, unit: str, pattern: re.Pattern[str], rule: str) -> list[str]:
    problems = []
    if len(text.encode("utf-8", "surrogatepass")) > longest:
        problems.append(f"must be no more than {longest} {unit}")
    if pattern.fullmatch(text) is None:
        problems.append(rule)
    return problems


def label_problems(name: str, *, unit: str = "bytes") -> list[str]:
    """Problems of an RFC 1123 label, such as the name of a namespace or a container."""
    rule = "must not contain dots" if _SUBDOMAIN.fullmatch(name) else _LABEL_RULE
    return _problems(name, longest=63, unit=unit, pattern=_LABEL, rule=rule)


def label_1035_problems(name: str, *, unit: str = "bytes") -> list[str]:
    return _problems(name, longest=63, unit=unit, pattern=_LABEL_1035, rule=_LABEL_1035_RULE)


def subdomain_problems(name: str, *, unit: str = "bytes") -> list[str]:
    """Problems of an RFC 1123 subdomain, such as the names of most objects."""
    return _problems(name, longest=253, unit=unit, pattern=_SUBDOMAIN, rule=_SUBDOMAIN_RULE)


def label_key_problems(key: str) -> list[str]:
    return qualified_name_problems(key, what="a valid label key")


def qualified_name_problems(
    name: str, *, what: str = "a qualified name", prefix_unit: str = "bytes"
) -> list[str]:
    """Problems of a label key, a resource or a scheduling gate: `name` or `dns.prefix/name`."""
    prefix, slash, last = name.rpartition("/")
    problems = []
    if slash:
        if "/" in prefix:
            example = "(e.g. 'example.com/MyName')"
            return [f"{what} {_QUALIFIED_RULE} with an optional DNS subdomain prefix and '/' {example}"]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in subdomain_problems(prefix, unit=prefix_unit)]
    if not last:
        problems.append("name part must be non-empty")
    elif len(last.encode("utf-8", "surrogatepass")) > 63:
        problems.append("name part must be no more than 63 bytes")
    if _QUALIFIED.fullmatch(last) is None:
        problems.append(f"name part {_QUALIFIED_RULE}")
    return problems


def label_value_problems(value: str, *, unit: str = "bytes") -> list[str]:
    return _problems(value, longest=63, unit=unit, pattern=_VALUE, rule=_VALUE_RULE)


def path_segment_problems(name: str) -> list[str]:
    """Problems of a name as a segment of a URL path, which every name has to be."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


RULES: Final[dict[str, Callable[[str], list[str]]]] = {
    "subdomain": subdomain_problems,
    "label": label_problems,
    "service": label_1035_problems,
    "path": path_segment_problems,
}


def generate_name(prefix: str, rng: random.Random) -> str:
    """A name with a random suffix."""
    return prefix[:_MAX_GENERATED_PREFIX] + "".join(rng.choices(_SUFFIX_LETTERS, k=5))
