"""Exact kernel SVMs, several times faster, on data that need not fit in memory."""
