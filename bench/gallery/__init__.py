"""Pictures of what the solvers do, one short file each, which defines `TITLE` and `draw(out, quick)`."""

__all__ = ["NAMES"]

# In the order in which they are best looked at: each needs only what was seen before.
NAMES = [
    "separating_line",
    "soft_and_hard_decisions",
    "penalty_and_margin",
    "hard_and_soft_margins",
    "own_kernel",
    "iris",
    "dual_ascent",
    "primal",
    "cifar_losses",
    "larger_than_memory",
]
