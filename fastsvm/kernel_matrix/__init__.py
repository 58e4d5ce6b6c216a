"""Rows of the kernel matrix, computed, cached and shared under a memory budget."""
