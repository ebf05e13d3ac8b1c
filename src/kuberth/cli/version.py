"""`kuberth version`: versions of Kuberth, Python and the dependencies.

In: the installed distributions and the commit that the build recorded in the package. Out: a table, or JSON.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

import kuberth
from kuberth.cli import options


def facts() -> dict[str, str | dict[str, str]]:
    """Versions of Kuberth, the matching Kubernetes, Python and the dependencies."""
    import platform

    return {
        "version": kuberth.__version__,
        "commit": _commit(),
        "kubernetes": kuberth.KUBERNETES_VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.machine()}",
        "dependencies": _dependencies(),
    }


@click.command("version")
@options.output("text", "json")
def version_command(output: str) -> None:
    """Show the versions of Kuberth, Python and the dependencies."""
    found = facts()
    if output == "json":
        import json

        click.echo(json.dumps(found, indent=2))
        return
    dependencies = found.pop("dependencies")
    assert isinstance(dependencies, dict)
    for name, value in {**found, **dependencies}.items():
        click.echo(f"{name:<14}{value or 'not recorded'}")


def _commit() -> str:
    """The git commit that the package was built from; "" if it is unknown, as in a checkout."""
    file = Path(kuberth.__file__).with_name("commit.txt")
    return file.read_text(encoding="utf-8").strip() if file.is_file() else ""


def _dependencies() -> dict[str, str]:
    """The installed version of each direct dependency, except those of extras and other systems."""
    from importlib import metadata

    needed = [line for line in metadata.requires("kuberth") or () if "extra ==" not in line]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed]
    found: dict[str, str] = {}
    for name in sorted(names, key=str.lower):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found
