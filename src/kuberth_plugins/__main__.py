"""`python -m kuberth_plugins`: print the folder with the manifests of the plugins' custom resources."""

from __future__ import annotations

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).parent / "manifests")  # noqa: T201 — what the command is for
