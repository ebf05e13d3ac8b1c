"""The framework as a library: evaluate a pod over a set of objects, without a running scheduler."""

from kuberth.evaluation.evaluator import Answer, Evaluator, Preemption

__all__ = ["Answer", "Evaluator", "Preemption"]
