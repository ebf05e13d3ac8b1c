"""The cluster in columns: which pods are placed where, and what every node offers.

On a pod's way, a scheduling cycle decides over this data. Nodes and placed pods come from intake, assumed
pods from the cycle; views over rows, counts per distinct term, and what-ifs go out.
"""
