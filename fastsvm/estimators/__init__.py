"""Estimators: validate, state the problem, solve, leave fitted attributes."""
