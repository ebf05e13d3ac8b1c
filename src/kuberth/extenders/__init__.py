"""HTTP extenders: webhooks that take part in scheduling in addition to plugins.

They are called after Filter, along with Score, in preemption, and instead of Bind. In: a pod and names of
nodes. Out: the nodes that an extender accepts, its scores, the victims it agrees to, or an `ExtenderError`
that names it. Everything here is asynchronous; the synchronous core never calls it.
"""

from kuberth.extenders.extenders import NO_EXTENDERS, Extenders, build_extenders
from kuberth.extenders.http_extender import HttpExtender
from kuberth.extenders.messages import ProposedVictims

__all__ = ["NO_EXTENDERS", "Extenders", "HttpExtender", "ProposedVictims", "build_extenders"]
