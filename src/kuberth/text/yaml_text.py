"""Trees of plain values → YAML, keys sorted as Kubernetes prints them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml


def yaml_text(tree: Mapping[str, Any]) -> str:
    text: str = yaml.safe_dump(tree, allow_unicode=True)
    return text
