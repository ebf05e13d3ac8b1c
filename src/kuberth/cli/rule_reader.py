"""Reads the rules of a running scheduler again, for `kuberth run` and `kuberth up`.

In: a configuration, and the plugins and the queue of the command line. Out: `Rules`, and the watched sources:
the configuration file and, with `--reload`, the modules of plugins and queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Final

from kuberth.cli.context import Extras, build_registry, notices, queue_factory
from kuberth.config import KubeSchedulerConfiguration
from kuberth.errors import ConfigError
from kuberth.framework.registry import Registry, UnusablePlugin, installed_plugins
from kuberth.programs.fresh_modules import FreshModules
from kuberth.programs.reloading import Rules, RuleSource, file_source

logger = logging.getLogger(__name__)

OWN_DISTRIBUTION: Final = "kuberth"
"""Plugins that only an upgrade replaces, which needs a new process."""


@dataclass(eq=False)
class RuleReader:
    """Reads the current rules."""

    extras: Extras
    registry: Registry
    load: Callable[[str | None, Registry], KubeSchedulerConfiguration]
    """Reads the configuration: the given text, or without one the file of the command line."""
    plugins: Sequence[str]
    queue: str | None
    path: Path | None
    reloads_modules: InitVar[bool]

    def __post_init__(self, reloads_modules: bool) -> None:
        self._modules = FreshModules(self._module_names()) if reloads_modules else None

    def sources(self) -> Sequence[RuleSource]:
        """The sources of the rules, which may change."""
        files = [] if self.path is None else [file_source(self.path)]
        return [
            *files,
            *([] if self._modules is None else [RuleSource("plugin modules", self._modules.state)]),
        ]

    def read(self, text: str | None = None) -> Rules:
        """Read the rules; `text` is a configuration that overrides the file's."""
        if self._modules is None:
            return self._rules(text, self.registry, fresh=False)
        return self._modules.reloaded(
            lambda: self._rules(text, build_registry(self.extras, self.plugins), fresh=True)
        )

    def _rules(self, text: str | None, registry: Registry, *, fresh: bool) -> Rules:
        for name in registry if fresh else ():
            factory = registry[name]
            # A package that broke while the scheduler runs would otherwise only fail when its plugin is
            # constructed.
            if isinstance(factory, UnusablePlugin) and not isinstance(self.registry[name], UnusablePlugin):
                raise ConfigError(factory.problem)
        config = self.load(text, registry)
        for notice in notices(config, registry, references=self.plugins):
            logger.warning("%s", notice)
        return Rules(config, registry, queue_factory(self.extras, self.queue) if fresh else None)

    def _module_names(self) -> Iterator[str]:
        """Names of the plugin modules, including plugins that only the next configuration may enable."""
        for reference in (*self.plugins, *([] if self.queue is None else [self.queue])):
            yield reference.partition(":")[0]
        for entry in installed_plugins():
            if entry.dist is None or entry.dist.name != OWN_DISTRIBUTION:
                yield entry.module
