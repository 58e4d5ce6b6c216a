"""The primal problem of a linear machine: mini-batch stochastic gradient descent."""
