"""Machines with a parameter ν, in whose dual problems the total of the multipliers of each class is given."""
