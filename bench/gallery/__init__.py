"""Pictures of what the solvers do. Each file defines `TITLE` and `draw(out, quick)`."""

__all__ = ["NAMES"]

# In the order of learning: each needs only the ones before.
NAMES = [
    "separating_line",
    "soft_and_hard_decisions",
    "penalty_and_margin",
    "hard_and_soft_margins",
    "own_kernel",
    "iris",
    "regression",
    "novelty",
    "fewer_support_vectors",
    "dual_ascent",
    "primal",
    "cifar_losses",
    "larger_than_memory",
]
