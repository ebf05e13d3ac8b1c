"""HTTP extenders: webhooks that take part in scheduling beside the plugins.

They are called after Filter, beside Score, in preemption, and instead of Bind. In: a pod and names of nodes.
Out: the nodes that an extender keeps, its scores, the victims it agrees to, or an `ExtenderError` that names
it. Everything here is asynchronous; the synchronous core never calls it.
"""

from kuberth.extenders.extenders import NO_EXTENDERS, Extenders, build_extenders
from kuberth.extenders.http_extender import HttpExtender
from kuberth.extenders.messages import ProposedVictims

__all__ = ["NO_EXTENDERS", "Extenders", "HttpExtender", "ProposedVictims", "build_extenders"]
