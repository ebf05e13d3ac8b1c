"""Explains why a pod is pending and which changes would let it be scheduled, with the scheduler's own code.

In: a pod, a cluster and a configuration. Out: an `Explanation`: which plugins reject the pod on which nodes,
what the nearest nodes lack, and tested changes that help. Nothing is written.

    explanation = explain(Question(pod, objects))
    explanation.proposals[0].text    # "remove the taint dedicated=gpu:NoSchedule from node n1"
"""

from kuberth.explaining.cluster_copy import ClusterCopy
from kuberth.explaining.explanation import Explanation, explain
from kuberth.explaining.proposals import Proposal
from kuberth.explaining.question import Question, Waiting

__all__ = ["ClusterCopy", "Explanation", "Proposal", "Question", "Waiting", "explain"]
