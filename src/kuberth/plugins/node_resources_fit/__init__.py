"""NodeResourcesFit: rejects nodes without enough resources, and scores nodes by utilization.

It compares requests with the allocatable and requested columns of the cluster table: Filter rejects nodes
with shortages (`resources/shortages`), Score prefers nodes by utilization (`strategies`).
"""
