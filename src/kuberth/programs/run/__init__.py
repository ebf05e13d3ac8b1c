"""`kuberth run`: the scheduler on a real cluster, one leader among replicas, with its probes and metrics."""
