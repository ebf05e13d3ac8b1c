"""What every implementation of `kuberth.client.protocol.Api` promises, stated once and asked of each."""
