"""Linear machines with an L1 penalty, solved in the primal: Newton's method on a working set of features."""
