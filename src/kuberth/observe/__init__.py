"""Metrics and log levels under kube-scheduler's names.

The lowest layer: every other one counts and logs here. In: observations. Out: Prometheus text, log records.
"""
