"""The plugins that ship with Kuberth, under kube-scheduler's names.

On a pod's way, plugins make the decisions: the framework's runner calls them at their extension points. Only
the registry here imports them, by the names in `kuberth.config.in_tree`; no other package imports a plugin.
"""

from __future__ import annotations

import re
from importlib import import_module

from kuberth.config.in_tree import IN_TREE_PLUGINS
from kuberth.framework.extension_points import Plugin
from kuberth.framework.registry import Registry


def _class_of(name: str) -> type[Plugin]:
    """The class has the plugin's name; the folder has this name in snake case."""
    folder = re.sub(r"(?<=.)(?=[A-Z])", "_", name).lower()
    found: type[Plugin] = getattr(import_module(f"kuberth.plugins.{folder}.plugin"), name)
    return found


IN_TREE: tuple[type[Plugin], ...] = tuple(map(_class_of, IN_TREE_PLUGINS))


def in_tree_registry() -> Registry:
    """A new registry of all plugins that ship with Kuberth."""
    registry = Registry()
    for plugin in IN_TREE:
        registry.register_class(plugin, origin="kuberth")
    return registry
