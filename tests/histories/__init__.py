"""Histories of the local API server's store: recorded calls, kills and disk faults, and a checker."""
