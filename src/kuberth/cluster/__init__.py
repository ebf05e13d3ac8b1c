"""The cluster in columns: what is placed where, and what every node offers.

On a pod's way this is what a scheduling cycle decides over. Nodes and placed pods come in from intake,
assumptions from the cycle; out go views over rows, counts per distinct term, and answers to "what if".
"""
