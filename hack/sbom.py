"""The software bill of materials of a release, in CycloneDX.

In: the version, and requirements.lock with its hashes. Out: JSON that is the same for the same input.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import Any, Final

_PINNED: Final = re.compile(r"([A-Za-z0-9._-]+)==([^\s;]+)\s*(?:;\s*(.*?))?\s*$")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(lock: str) -> list[dict[str, Any]]:
    """Each pinned distribution, with the hashes of its files; a line that is none of these is an error."""
    found = []
    for block in lock.replace("\\\n", " ").splitlines():
        pinned = _PINNED.match(_HASH.sub("", block).strip())
        if pinned is None:
            if block.strip():
                raise ValueError(f"requirements.lock has a line that pins nothing: {block[:80]}")
            continue
        name, version, condition = pinned.groups()
        found.append(
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name.lower()}@{version}",
                "hashes": [{"alg": "SHA-256", "content": each} for each in _HASH.findall(block)],
                **({"properties": [{"name": "python:marker", "value": condition}]} if condition else {}),
            }
        )
    return found


def sbom(version: str, lock: str) -> str:
    parts = components(lock)
    purl = f"pkg:pypi/kuberth@{version}"
    product = {
        "type": "application",
        "bom-ref": purl,
        "name": "kuberth",
        "version": version,
        "purl": purl,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    tree = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, purl + lock)}",
        "version": 1,
        "metadata": {"component": product},
        "components": parts,
        "dependencies": [{"ref": purl, "dependsOn": [part["bom-ref"] for part in parts]}],
    }
    return json.dumps(tree, indent=2) + "\n"
