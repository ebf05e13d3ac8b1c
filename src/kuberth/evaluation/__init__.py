"""The framework as a library: judge a pod over a set of objects, with no scheduler running."""

from kuberth.evaluation.evaluator import Answer, Evaluator, Preemption

__all__ = ["Answer", "Evaluator", "Preemption"]
