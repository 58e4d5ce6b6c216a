"""How large rounding errors are, and when they count. Each tolerance of the kernel room is stated here once."""

import numpy as np

UNIT = float(np.finfo(np.float64).epsneg)
"""Largest relative error of one rounding."""

ROUNDING = 2.0**-40
"""Relative size of what rounding leaves of sums: 8,192 roundings, as of sums of thousands of terms."""

NEAR = 16
"""A number may be a rounding error if it is at most so many times as large as one."""

NEAR_BOUND = NEAR * float(np.finfo(np.float64).eps)
"""A multiplier that a Newton step leaves so near to a bound, relative to it, is at the bound."""

EXACT = 1e-11
"""A gap of this size, in units of F, is rounding error: it is not reduced further."""

BALANCED = 1e-13
"""Largest |Σ_i y_i α_i| that counts as 0, relative to Σ_i α_i."""

RETURNED = NEAR * UNIT
"""Largest relative error of multipliers that are returned divided by the margin, as of ν-classification."""

INVISIBLE = 1e-6
"""Multipliers may be moved to a bound that is near if F changes by at most this share of the tolerance."""

SEEN = 0.1
"""What is less than this share of another number is not seen beside it: rounding beside a tolerance or a gap."""

SEEN_OBJECTIVE = 1e-8
"""Rounding is not seen beside an objective if it is less than this share of it."""
