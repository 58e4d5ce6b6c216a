"""Exact kernel machines on a cluster: tasks, to which the rows of pairs of classes go."""
