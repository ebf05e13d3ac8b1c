"""Small controllers, one module each: they read a spec and take one step towards it.

Each watches objects through shared informers, has a queue of keys and waits only for the server. They follow
kube-controller-manager in everything visible (names, counts, conditions, annotations, order) and omit what
only large clusters need.
"""
