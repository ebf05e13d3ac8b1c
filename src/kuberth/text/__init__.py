"""Text that people and Kubernetes write, read once and the same everywhere: YAML and JSON documents with
the place of every error, durations, timestamps.
"""
