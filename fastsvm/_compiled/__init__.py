"""Compilation with Numba and llvmlite. No other folder imports either."""
