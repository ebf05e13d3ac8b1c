"""Reads and writes text: YAML and JSON documents, durations, timestamps, figures."""
