"""Defines what a plugin is, and calls plugins.

On a pod's way this is used between the queue and the binding: a pod and the cluster table come in, the
extension points of KEP-624, KEP-3521 and KEP-4247 run in order, and statuses, verdicts and scores go out.
This package knows no plugin by name.
"""

from kuberth.framework.cluster_events import Action, ClusterEvent, Concern, EventWithHint, Hint, Resource
from kuberth.framework.cycle_state import CycleState, GroupAttempt, StateKey
from kuberth.framework.diagnosis import Diagnosis, FitError
from kuberth.framework.extension_points import (
    BindPlugin,
    EnqueueExtensions,
    FilterPlugin,
    PermitPlugin,
    PermitResult,
    PlacementCandidate,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Plugin,
    PodGroupPostFilterPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    ProposedPlacement,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)
from kuberth.framework.handle import Handle
from kuberth.framework.inputs import DependsOn, Idle, Inputs
from kuberth.framework.profile import Profile
from kuberth.framework.queued_pod import QueuedPod
from kuberth.framework.registry import Registry
from kuberth.framework.runner import Runner
from kuberth.framework.scores import MAX_NODE_SCORE, MIN_NODE_SCORE
from kuberth.framework.status import SKIP, SUCCESS, Code, Status
from kuberth.framework.verdict import Verdict

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "Action",
    "BindPlugin",
    "ClusterEvent",
    "Code",
    "Concern",
    "CycleState",
    "DependsOn",
    "Diagnosis",
    "EnqueueExtensions",
    "EventWithHint",
    "FilterPlugin",
    "FitError",
    "GroupAttempt",
    "Handle",
    "Hint",
    "Idle",
    "Inputs",
    "PermitPlugin",
    "PermitResult",
    "PlacementCandidate",
    "PlacementGeneratePlugin",
    "PlacementScorePlugin",
    "Plugin",
    "PodGroupPostFilterPlugin",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "Profile",
    "ProposedPlacement",
    "QueueSortPlugin",
    "QueuedPod",
    "Registry",
    "ReservePlugin",
    "Resource",
    "Runner",
    "ScorePlugin",
    "StateKey",
    "Status",
    "Verdict",
]
