"""`kuberth shadow`: compares decisions with those of a cluster's scheduler, read-only."""
