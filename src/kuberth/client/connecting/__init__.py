"""From an address to bytes that come and go: dialling, TLS, connections, the pool that keeps them."""
