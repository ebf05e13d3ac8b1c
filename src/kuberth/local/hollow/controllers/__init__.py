"""Small controllers, one module each: what should be is read from a spec, one step towards it is made.

Each follows what it needs through shared informers, keeps a queue of keys and never waits for anything but
the server. They follow kube-controller-manager where people can see it (names, counts, conditions,
annotations, order) and leave out what only large clusters need.
"""
