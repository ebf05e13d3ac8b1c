"""Configuration trees for the tests, written as a user would."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kuberth.config import InvalidConfiguration, KubeSchedulerConfiguration, load
from kuberth.config.in_tree import IN_TREE_POINTS
from kuberth.config.loading import Source, decode_source


def document(**fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **fields,
    }


def decoded(source: Source) -> KubeSchedulerConfiguration:
    """The configuration without defaults."""
    given, _translation, _broken, errors = decode_source(source, {})
    assert given is not None
    assert not errors
    return given


def one_profile(**fields: Any) -> dict[str, Any]:
    return document(profiles=[fields])


def with_plugins(**points: Any) -> dict[str, Any]:
    return one_profile(plugins=points)


def with_args(name: str, args: Any, **fields: Any) -> dict[str, Any]:
    return document(profiles=[{"pluginConfig": [{"name": name, "args": args}]}], **fields)


def errors_of(
    tree: Any,
    *,
    known_plugins: Collection[str] | None = None,
    extension_points: Mapping[str, Collection[str]] | None = None,
    args_types: Mapping[str, type] | None = None,
    feature_gates: Mapping[str, bool] | None = None,
) -> list[str]:
    """What is wrong, one line a problem; nothing when it loads."""
    try:
        load(
            tree,
            known_plugins=[*IN_TREE_POINTS, *(extension_points or {})]
            if known_plugins is None
            else known_plugins,
            extension_points=extension_points,
            args_types=args_types,
            feature_gates=feature_gates,
        )
    except InvalidConfiguration as error:
        return [str(one) for one in error.errors]
    return []
