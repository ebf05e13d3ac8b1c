"""Which server, and as whom: kubeconfigs, the pod we run in, tokens, certificates, credential commands."""
