"""Reduced set method: Newton's method in the primal with few basis functions, for kernel SVMs on very many rows.

Problem
    That of `newton`, with β = 0 except on m landmarks M drawn at random (Lee and Mangasarian 2001, RSVM):
    minimise over w and b    ½ wᵀK_MM w + Σ_i C_i ℓ(y_i f_i),    f = Gw + b,    G = K_NM

Step
    As in `newton`, for weights u of the features Φ = G L⁻ᵀ with the Cholesky factorisation K_MM = LLᵀ, because the
    system for w is badly conditioned. With the rows in the linear part, L, and in the curved part, B, of the loss, and
    D = diag(C_i ℓ''),
        (I + Φ_Bᵀ D Φ_B) u + Φ_Bᵀ D 1 b = Φ_Bᵀ D y start + Φ_Lᵀ y C |ℓ'|
    and the corresponding equation for b.

Certificate
    That of the SVM with the kernel G K_MM⁻¹ Gᵀ, to which the problem is equivalent.

Cost
    m n kernel values and m² n multiplications once, |B| m² + m³/3 a step.

Memory
    m rows of the kernel and as many features, and three squares of order m.
"""

from typing import Any

import numpy as np
from scipy import linalg

from fastsvm._compiled.threads import spans
from fastsvm.solvers.kernel_dual.problem import KernelSolution
from fastsvm.solvers.kernel_primal.newton import KernelPrimalState, Primal, Step
from fastsvm.solvers.kernel_primal.nystrom import features, weighted_square, whitening
from fastsvm.solvers.kernel_primal.regularized_system import refused_if_indefinite

__all__ = ["Landmarks"]

_RIDGE = 1e-10  # relative to the mean of the diagonal
_TILE_ROWS = 128
_COLUMNS = 2048
_BALANCED = 1e-12


class Landmarks(Primal):
    """Solve one two-class problem with a basis of `n_landmarks` rows. The other parameters are those of `Primal`."""

    smoothed_bounds = 1

    def __init__(self, *given: Any, n_landmarks: int) -> None:
        super().__init__(*given)
        n = len(self.problem.y)
        self._basis = np.sort(self.method.rng.choice(n, min(n_landmarks, n), replace=False))
        slots, store = self.rows.fetch(self._basis), self.rows.store
        with refused_if_indefinite():
            self._whitening = whitening(store, slots, self._basis, _RIDGE)
        self._features = features(self._whitening, (store, slots), None, self.pool)

    def init(self, alpha: np.ndarray | None = None) -> KernelPrimalState:
        """Return the state at `alpha` on the landmarks, or at zero."""
        if alpha is None:
            return super().init()
        basis = np.zeros(len(alpha), bool)
        basis[self._basis] = True
        return super().init(np.where(basis, alpha, 0.0))

    def finish(self, state: KernelPrimalState) -> KernelSolution:
        """Return the solution and its certificate."""
        state, y = self._with_recomputed_sums(state), self.problem.y
        near = self._dual.feasible(y * self._loss_term(state))
        weights = self._features_times(y * near)
        dual = self._dual.linear(near) - float(weights @ weights) / 2
        intercept = self._intercept(state)
        objective = self._dual.primal(state.alpha, state.sums, intercept)
        violation = self._violation(state) + state.smoothing
        within = self._dual.within(state.sums + intercept, state.smoothing)
        return KernelSolution(state.alpha, within, intercept, objective, max(0.0, objective - dual), violation)

    def _presolved(self, state: KernelPrimalState) -> KernelPrimalState:
        return self._centred(state)

    def _settle(self, state: KernelPrimalState) -> None:
        state.sums[:] = self._true_sums(state)
        self._settled = True

    def _coefficients(self, weights: np.ndarray) -> np.ndarray:
        """Return β for weights u of the features."""
        beta = np.zeros(len(self.problem.y))
        beta[self._basis] = self._whitening.T @ weights
        return beta

    def _weights(self, state: KernelPrimalState) -> np.ndarray:
        """Return u for β."""
        beta = (self.problem.y * state.alpha)[self._basis]
        return linalg.solve_triangular(self._whitening, beta, lower=True, trans="T", check_finite=False)

    def _violation(self, state: KernelPrimalState) -> float:
        """Return the largest change of a decision value if w is replaced by what the derivative of the loss implies."""
        loss, loss_term = self._loss(state), self._loss_term(state)
        missing = self._weights(state) - self._features_times(loss_term)
        violation = float(np.abs(self._scores(missing)).max())
        stiffness = float(self.problem.upper[loss.is_curved(self._margins(state))].sum()) * loss.curvature
        imbalance = abs(float(loss_term.sum()))
        if self.method.fit_intercept and imbalance > _BALANCED * float(np.abs(loss_term).sum()):
            return max(violation, imbalance / stiffness if stiffness > 0 else np.inf)
        return violation

    def _newton(self, state: KernelPrimalState, accuracy: float) -> Step:
        y, upper = self.problem.box
        loss = self._loss(state)
        curved = loss.is_curved(self._margins(state))
        hessian = np.where(curved, upper * loss.curvature, 0.0)
        force = np.where(curved, y * hessian * loss.start, self._loss_term(state))
        system = weighted_square(self._features, hessian, self.pool)
        system[np.diag_indices_from(system)] += 1
        column = self._features_times(hessian)
        vectors = np.column_stack([self._features_times(force), column])
        weights, of_column = linalg.solve(system, vectors, assume_a="pos", overwrite_a=True, check_finite=False).T
        shift = None
        if curved.any() and self.method.fit_intercept:
            intercept = float((force.sum() - column @ weights) / (hessian.sum() - column @ of_column))
            weights, shift = weights - intercept * of_column, intercept - state.intercept
        delta = self._coefficients(weights) - y * state.alpha
        return Step(delta, self._scores(weights - self._weights(state)), shift, exact=True)

    # --- the features Φᵀ, K_MM^(-1/2) Gᵀ -------------------------------------------------------------------------

    def _scores(self, weights: np.ndarray) -> np.ndarray:
        """Return Φ times a vector."""
        found = np.empty(self._features.shape[1])
        parts = spans(len(found), _COLUMNS)
        self.pool.run(_multiply, [(weights, self._features[:, a:b], found[a:b]) for a, b in parts])
        return found

    def _features_times(self, vector: np.ndarray) -> np.ndarray:
        """Return Φᵀ times a vector."""
        found = np.empty(len(self._features))
        tiles = spans(len(found), _TILE_ROWS)
        self.pool.run(_multiply, [(self._features[c:d], vector, found[c:d]) for c, d in tiles])
        return found


def _multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    np.matmul(left, right, out=out)
