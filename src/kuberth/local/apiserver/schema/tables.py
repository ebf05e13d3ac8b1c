"""The tables beside these modules. In: the name of a file. Out: its tree."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec

from kuberth.text.documents import read_tree


def read_table(name: str) -> Any:
    text = files("kuberth.local.apiserver.schema").joinpath(name).read_bytes()
    if name.endswith(".json"):
        return msgspec.json.decode(text)
    tree, errors = read_tree(text)
    assert not errors, errors
    return tree
