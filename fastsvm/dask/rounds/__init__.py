"""The rounds of a fit on the workers of a cluster: what the client tells the shards, and what they answer."""
