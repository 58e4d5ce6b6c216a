"""What is made of Numba and llvmlite: the only folder that names either."""
