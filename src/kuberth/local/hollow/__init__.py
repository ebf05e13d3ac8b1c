"""Hollow nodes, which run nothing, and small controllers.

Around a pod's way: a Deployment comes in, pods for the scheduler go out; a bound pod comes in and goes
Running, without a container anywhere. Everything here is a program against the embedded server's verbs,
as kube-controller-manager and the kubelets are against the API's, and can be turned off piece by piece.
"""
