"""The contract of `kuberth.client.protocol.Api`, stated once and checked for every implementation."""
