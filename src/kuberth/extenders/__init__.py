"""HTTP extenders: programs that are asked about a pod over the network, beside the plugins.

On a pod's way they stand at four places: after Filter, beside Score, in preemption, and instead of Bind. A
pod and names of nodes come in; out go the nodes an extender leaves, its scores, the victims it agrees to, or
an `ExtenderError` that names it. Everything here awaits: nothing of it is called from the synchronous core.
"""

from kuberth.extenders.extenders import NO_EXTENDERS, Extenders, build_extenders
from kuberth.extenders.http_extender import HttpExtender
from kuberth.extenders.messages import ProposedVictims

__all__ = ["NO_EXTENDERS", "Extenders", "HttpExtender", "ProposedVictims", "build_extenders"]
