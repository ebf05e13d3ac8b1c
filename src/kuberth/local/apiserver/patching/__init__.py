"""Patches: JSON, merge, strategic merge and server-side apply with its field owners."""
