"""A kernel of a user's own, one class for all tests, so that each process compiles its map once."""

from typing import NamedTuple

from fastsvm.kernels import kernel_value


class Cauchy(NamedTuple):
    """width / (width + ‖x - z‖²)."""

    width: float = 1.0
    pairing = "dot"
    translation_invariant = True

    def rounding(self, eps, sq_norm):
        return 4 * eps * sq_norm / self.width + eps


@kernel_value.register(Cauchy)
def cauchy(kernel, dot, sq_x, sq_z):
    return kernel.width / (kernel.width + abs(sq_x + sq_z - dot - dot))
