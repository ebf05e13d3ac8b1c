"""The scheduler's configuration, loaded before any pod arrives.

In: a KubeSchedulerConfiguration file and feature gates. Out: typed settings, and for each profile the plugins
with their order and arguments. Start at `load`.
"""

from kuberth.config.defaults import apply_defaults, default_configuration
from kuberth.config.feature_gates import FeatureGates
from kuberth.config.loading import load
from kuberth.config.printing import to_json, to_yaml
from kuberth.config.resolve import ResolvedProfile, leaving_to_extenders, resolve_profile
from kuberth.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from kuberth.config.validation import validate
from kuberth.text.field_errors import FieldError, InvalidConfiguration

__all__ = [
    "FeatureGates",
    "FieldError",
    "InvalidConfiguration",
    "KubeSchedulerConfiguration",
    "KubeSchedulerProfile",
    "ResolvedProfile",
    "apply_defaults",
    "default_configuration",
    "leaving_to_extenders",
    "load",
    "resolve_profile",
    "to_json",
    "to_yaml",
    "validate",
]
