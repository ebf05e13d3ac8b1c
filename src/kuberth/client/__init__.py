"""The way to the Kubernetes API: the verbs the scheduler needs, and who answers them.

On a pod's way this is both ends: it arrives through list and watch, and leaves as a binding. Nothing
above knows which implementation answers.
"""
