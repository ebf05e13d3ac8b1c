"""Small controllers, one module each: they read a spec and take one step towards it.

Each watches what it needs through shared informers, has a queue of keys and waits only for the server. They
follow kube-controller-manager where people can see it (names, counts, conditions, annotations, order) and
leave out what only large clusters need.
"""
