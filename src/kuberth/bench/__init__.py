"""How fast a scheduler is: `kuberth bench`, beside a pod's way and asking how long it is.

In: workloads in the YAML of Kubernetes' scheduler_perf, a cluster to run them on, schedulers to compare.
Out: pods a second as scheduler_perf counts them, CPU and memory, latencies, ratios, and whether thresholds
were met.
"""
