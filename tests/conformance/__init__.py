"""Replays what kube-scheduler itself answered, case by case."""
