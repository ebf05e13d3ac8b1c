"""Hollow nodes, which run no containers, and small controllers.

A Deployment comes in, and pods for the scheduler go out; a bound pod comes in, and becomes Running without a
container. Everything here uses the embedded server's verbs, as kube-controller-manager and the kubelets use
the API, and can be turned off individually.
"""
