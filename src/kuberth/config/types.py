"""KubeSchedulerConfiguration, kubescheduler.config.k8s.io/v1, as frozen structs.

A field's default here is Kubernetes' default where that is one constant; what depends on other fields or on
feature gates is filled in by `defaults`. The structs have no behaviour and check nothing: see `validation`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta, Struct, field

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"

Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, Meta(min_length=1)]

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100
"""The range of normalized scores of a plugin."""

SCORING_POINTS = ("score", "placementScore")
"""The extension points with weights."""


class LeaderElectionConfiguration(Struct, frozen=True, kw_only=True, rename="camel"):
    leader_elect: bool = True
    lease_duration: timedelta = timedelta(seconds=15)
    renew_deadline: timedelta = timedelta(seconds=10)
    retry_period: timedelta = timedelta(seconds=2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfiguration(Struct, frozen=True, kw_only=True, rename="camel"):
    kubeconfig: str = ""
    accept_content_types: str = ""
    # Kuberth always uses JSON; the field exists so that the same file works for kube-scheduler.
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class PluginRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin at an extension point. Weight 0 counts as 1, like no weight."""

    name: Name
    weight: Int32 | None = None


class PluginSet(Struct, frozen=True, kw_only=True, rename="camel"):
    """The plugins to add to an extension point and to remove; the name `*` removes all."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Struct, frozen=True, kw_only=True, rename="camel"):
    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


class PluginConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    """A plugin's arguments: a struct if the plugin has a type for them, else the plain mapping, or None."""

    name: Name
    args: Any = None


class KubeSchedulerProfile(Struct, frozen=True, kw_only=True, rename="camel"):
    scheduler_name: Name = ""
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(Struct, frozen=True, kw_only=True, rename="camel"):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Struct, frozen=True, kw_only=True, rename="camel"):
    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: timedelta = timedelta(seconds=5)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Struct, frozen=True, kw_only=True, rename="camel"):
    parallelism: Int32 = 16
    leader_election: LeaderElectionConfiguration = LeaderElectionConfiguration()
    client_connection: ClientConnectionConfiguration = ClientConnectionConfiguration()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
    # Only in Kuberth: kube-scheduler has feature gates only as a flag. Explicit settings, not all gates.
    feature_gates: dict[str, bool] = {}


EXTENSION_POINTS = tuple(point for point in Plugins.__struct_encode_fields__ if point != "multiPoint")
"""The extension points as written in configurations; `multiPoint` stands for all of them."""


def plugin_set(plugins: Plugins, point: str) -> PluginSet:
    """The set at an extension point, or at `multiPoint`, by its name in the file."""
    value: PluginSet = getattr(plugins, _ATTRIBUTES[point])
    return value


_ATTRIBUTES = dict(zip(Plugins.__struct_encode_fields__, Plugins.__struct_fields__, strict=True))
