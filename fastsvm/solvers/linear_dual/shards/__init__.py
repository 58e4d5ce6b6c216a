"""Dual coordinate ascent on rows in several places: what is done with each shard, and the rounds that join them."""
