"""Reads the configuration and plugins of the scheduler in `kuberth up`, at the start and on reload.

In: the flags, and the text of the cluster's own configuration if there is one. Out: `Rules`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from kuberth.cli.context import Extras, build_registry, configuration, notices, queue_factory
from kuberth.config import FeatureGates, default_configuration
from kuberth.framework.registry import Registry
from kuberth.programs.reloading import Rules, RuleSource, file_source
from kuberth.programs.up.fresh_modules import FreshModules

logger = logging.getLogger(__name__)


class RuleReader:
    """Reads the current rules."""

    def __init__(
        self,
        extras: Extras,
        registry: Registry,
        *,
        plugins: Sequence[str],
        queue: str | None,
        path: Path | None,
        gates: Mapping[str, bool],
        reloads_modules: bool,
    ) -> None:
        self._extras = extras
        self._registry = registry
        self._plugins = plugins
        self._queue = queue
        self._path = path
        self._gates = gates
        modules = [reference.partition(":")[0] for reference in (*plugins, queue or "") if reference]
        self._modules = FreshModules(modules) if reloads_modules else None

    def sources(self) -> Sequence[RuleSource]:
        files = [] if self._path is None else [file_source(self._path)]
        return [
            *files,
            *([] if self._modules is None else [RuleSource("plugin modules", self._modules.look)]),
        ]

    def read(self, text: str | None) -> Rules:
        """Read the rules; `text` is the configuration in the cluster, which overrides the file."""
        if self._modules is None:
            return self._rules(text, self._registry, fresh=False)
        return self._modules.reloaded(
            lambda: self._rules(text, build_registry(self._extras, self._plugins), fresh=True)
        )

    def _rules(self, text: str | None, registry: Registry, *, fresh: bool) -> Rules:
        if text is not None:
            config = configuration(text, registry, self._gates, name="its config.yaml")
        elif self._path is not None:
            config = configuration(self._path, registry, self._gates)
        else:
            config = default_configuration(FeatureGates(self._gates))
        for notice in notices(config, registry, references=self._plugins):
            logger.warning("%s", notice)
        return Rules(config, registry, queue_factory(self._extras, self._queue) if fresh else None)
