"""Linear machines with a smooth loss, solved in the primal: Newton's method, with an L1 penalty on a working set."""
