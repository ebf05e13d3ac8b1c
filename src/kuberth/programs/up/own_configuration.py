"""The scheduler's configuration as a ConfigMap in the cluster, which can be edited.

In: `kube-system/kuberth-scheduler`. Out: the text under `config.yaml`, whenever the ConfigMap changes.
Without the ConfigMap the scheduler uses the configuration that `kuberth up` was started with.
"""

from __future__ import annotations

from typing import Final

from kuberth.api.plain import PlainObject
from kuberth.errors import ConfigError
from kuberth.local.apiserver.objects import Obj
from kuberth.local.apiserver.status_errors import StatusError
from kuberth.local.apiserver.verbs.core import Core
from kuberth.programs.reloading import RuleSource

NAMESPACE: Final = "kube-system"
NAME: Final = "kuberth-scheduler"
KEY: Final = "config.yaml"


class ConfigMapReference(PlainObject):
    """A reference to the ConfigMap for events."""

    api_version = "v1"
    kind = "ConfigMap"


class OwnConfiguration:
    """The ConfigMap, whether or not it exists."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.source = RuleSource(f"ConfigMap {NAMESPACE}/{NAME}", self._version)
        self._uid = ""

    def reference(self) -> ConfigMapReference:
        """The reference to the ConfigMap in events, with the UID by which `kubectl describe` finds them."""
        uid = {"uid": self._uid} if self._uid else {}
        return ConfigMapReference({"metadata": {"namespace": NAMESPACE, "name": NAME, **uid}})

    async def _version(self) -> object:
        found = await self._read()
        return None if found is None else (found["metadata"].get("uid"), found.get("data"))

    async def text(self) -> str | None:
        """The text of the configuration; None if there is no ConfigMap."""
        found = await self._read()
        if found is None:
            return None
        text = (found.get("data") or {}).get(KEY)
        if not isinstance(text, str):
            raise ConfigError(f"ConfigMap {NAMESPACE}/{NAME}: it needs a KubeSchedulerConfiguration at {KEY}")
        return text

    async def _read(self) -> Obj | None:
        try:
            found = await self._core.get("configmaps", NAME, namespace=NAMESPACE)
        except StatusError as error:
            if error.code == 404:
                return None
            raise
        self._uid = found["metadata"].get("uid", "")
        return found
