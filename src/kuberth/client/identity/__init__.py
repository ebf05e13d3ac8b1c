"""Server address and credentials: kubeconfigs, service accounts, tokens, certificates, exec plugins."""
