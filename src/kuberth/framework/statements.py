"""The statements of one profile's plugins, until they prove wrong.

In: plugins. Out: the validated `Inputs` of each, until a difference shows that a statement is wrong; from
then on it is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kuberth.framework.extension_points import (
    FilterPlugin,
    Plugin,
    PostFilterPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
)
from kuberth.framework.inputs import Inputs, checked_inputs

_INTERFACES: Final[Mapping[str, type[Plugin]]] = {
    "pre_filter": PreFilterPlugin,
    "filter": FilterPlugin,
    "post_filter": PostFilterPlugin,
    "pre_score": PreScorePlugin,
    "score": ScorePlugin,
}


def inputs_of(plugin: Plugin) -> Inputs | None:
    """The statement of one plugin; None if it has none. ConfigError if it is incomplete or wrong."""
    return checked_inputs(
        plugin, (phase for phase, interface in _INTERFACES.items() if isinstance(plugin, interface))
    )


class Statements:
    """The statements of a profile's plugins, by plugin."""

    def __init__(self, plugins: Iterable[Plugin]) -> None:
        """ConfigError for a statement that is incomplete or names unknown fields."""
        self._inputs = {
            plugin.name: inputs for plugin in plugins if (inputs := inputs_of(plugin)) is not None
        }
        self.version = 0
        """Grows whenever a statement proves wrong."""

    def of(self, plugin: str) -> Inputs | None:
        """The plugin's statement; None if it has none, or a wrong one."""
        return self._inputs.get(plugin)

    def distrust(self, plugin: str) -> bool:
        """Ignore the plugin's statement from now on. False if it is ignored already."""
        if self._inputs.pop(plugin, None) is None:
            return False
        self.version += 1
        return True
