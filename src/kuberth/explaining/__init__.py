"""Why a pod waits, and what would free it: asked of the very code that decides.

Beside a pod's way: in comes a pod, a cluster and a configuration, out comes an `Explanation`: who rejects the
pod on which nodes, what the nearest nodes lack, and changes that were tried and found to help. Nothing is
written anywhere.

    explanation = explain(Question(pod, objects))
    explanation.proposals[0].text    # "remove the taint dedicated=gpu:NoSchedule from node n1"
"""

from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.explanation import Explanation, explain
from kuberth.explaining.proposals import Proposal
from kuberth.explaining.question import Question, Waiting

__all__ = ["ClusterCopy", "Explanation", "Proposal", "Question", "Waiting", "explain"]
