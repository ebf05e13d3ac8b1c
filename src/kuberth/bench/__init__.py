"""Benchmarks of schedulers: `kuberth bench`.

In: workloads in the YAML of Kubernetes' scheduler_perf, a cluster to run them on, schedulers to compare.
Out: pods per second as scheduler_perf counts them, CPU and memory, latencies, ratios, and whether thresholds
were met.
"""
