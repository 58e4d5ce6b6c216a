"""Fits from files: the suite `streaming` for linear SVMs, `python -m bench.streaming.kernel` for exact kernel SVMs."""
