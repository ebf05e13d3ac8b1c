"""Kubernetes' REST conventions: paths, request heads, pages of lists, frames of watches, errors."""
