"""Kinds of the suite's own: one custom resource seen through two versions, and one without a namespace.

`Widget` (v1) is a struct, `RawWidget` (v1alpha1) the same objects as plain trees: what is written as one can
be read as the other, or cannot.
"""

from __future__ import annotations

from typing import Any

from kuberth.api import ObjectMeta, Wire, always, register_kind

GROUP = "contract.kuberth.io"


class WidgetSpec(Wire):
    size: int = 0
    tags: tuple[str, ...] = ()


class Widget(Wire):
    api_version: str = always(f"{GROUP}/v1")
    kind: str = always("Widget")
    metadata: ObjectMeta = ObjectMeta()
    spec: WidgetSpec = WidgetSpec()


register_kind(Widget, group=GROUP, version="v1", plural="widgets")
RawWidget = register_kind("Widget", group=GROUP, version="v1alpha1", plural="widgets")
Planet = register_kind("Planet", group=GROUP, version="v1", plural="planets", namespaced=False)
Nowhere = register_kind("Nowhere", group=GROUP, version="v1", plural="nowheres")
"""No cluster defines it."""
CustomResourceDefinition = register_kind(
    "CustomResourceDefinition",
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    namespaced=False,
)


def definition(kind: str, plural: str, *versions: str, namespaced: bool = True) -> Any:
    """A definition that takes any fields; its first version is the stored one."""
    return CustomResourceDefinition(
        {
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "names": {"kind": kind, "plural": plural},
                "scope": "Namespaced" if namespaced else "Cluster",
                "versions": [
                    {
                        "name": version,
                        "served": True,
                        "storage": version == versions[0],
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            }
                        },
                    }
                    for version in versions
                ],
            },
        }
    )


DEFINITIONS = (
    definition("Widget", "widgets", "v1", "v1alpha1"),
    definition("Planet", "planets", "v1", namespaced=False),
)
