"""From the parameters of linear machines to runs of solvers, new or resumed."""
