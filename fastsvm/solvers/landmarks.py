"""Newton's method in the primal with few basis functions, for kernel SVMs on very many rows.

Problem
    That of `primal`, with β = 0 for all rows but m landmarks drawn at random (Lee and Mangasarian 2001, RSVM):
    minimise over w and b    ½ wᵀK_MM w + Σ_i C_i ℓ(y_i f_i),    f = Gw + b,    G = K_NM

Step
    As in `primal`, for weights u of the features Φ = G K_MM^(-1/2), by Cholesky's factor of K_MM: the system of w
    is badly conditioned. With rows in the line, L, and in the bend, B, and D = diag(C_i ℓ''),
        (I + Φ_Bᵀ D Φ_B) u + Φ_Bᵀ D 1 b = Φ_Bᵀ D y start + Φ_Lᵀ y C |ℓ'|
    and the same for b.

Certificate
    That of the kernel G K_MM⁻¹ Gᵀ, whose SVM this is exactly.

Cost
    m n kernel values once, 2 |B| m² + m³/3 multiplications a step.

Memory
    m rows of the kernel, and two squares of order m.
"""

from typing import Any

import numpy as np
from scipy import linalg

from fastsvm._threads import spans
from fastsvm.solvers.decomposition import Solution
from fastsvm.solvers.primal import Primal, State, Step
from fastsvm.solvers.ridge_system import NOT_POSITIVE

__all__ = ["Landmarks"]

_RIDGE = 1e-12  # of the trace
_TILE_ROWS = 128
_COLUMNS = 2048


class Landmarks(Primal):
    """Solve one two-class problem with a basis of `n_landmarks` rows; other parameters are those of `Primal`."""

    def __init__(self, *given: Any, n_landmarks: int) -> None:
        super().__init__(*given)
        n = len(self.problem.y)
        self._basis = np.sort(self.method.rng.choice(n, min(n_landmarks, n), replace=False))
        square = self._values(0, n)[:, self._basis]
        square[np.diag_indices_from(square)] += _RIDGE * max(float(np.trace(square)), 1e-300)
        try:
            self._whitening = linalg.inv(linalg.cholesky(square, lower=True))
        except linalg.LinAlgError as error:
            raise linalg.LinAlgError(NOT_POSITIVE) from error

    def init(self, alpha: np.ndarray | None = None) -> State:
        """Return the state at `alpha` on the landmarks, or at zero."""
        if alpha is None:
            return super().init()
        basis = np.zeros(len(alpha), bool)
        basis[self._basis] = True
        return super().init(np.where(basis, alpha, 0.0))

    def finish(self, state: State) -> Solution:
        """Return the solution and its certificate."""
        y, upper = self.problem
        loss = self._loss(state)
        near = self._dual.feasible(upper * loss.curvature * loss.excess(self._margins(state)))
        weights = self._features_times(y * near)
        dual = self._dual.linear(near) - float(weights @ weights) / 2
        objective = self._objective(state)
        violation = self._violation(state) + state.bend
        within = self._dual.within(state.sums + state.intercept, state.bend)
        return Solution(state.alpha, within, state.intercept, objective, max(0.0, objective - dual), violation)

    def _begun(self, state: State) -> State:
        return self._centred(state)

    def _settle(self, state: State) -> None:
        state.sums[:] = self._products.times(self.problem.y * state.alpha)

    def _coefficients(self, weights: np.ndarray) -> np.ndarray:
        """Return β for weights u of the features."""
        beta = np.zeros(len(self.problem.y))
        beta[self._basis] = self._whitening.T @ weights
        return beta

    def _weights(self, state: State) -> np.ndarray:
        """Return u for β."""
        beta = (self.problem.y * state.alpha)[self._basis]
        return linalg.solve_triangular(self._whitening, beta, lower=True, trans="T", check_finite=False)

    def _violation(self, state: State) -> float:
        """Return how far the decision values are from those that the slope of the loss at them gives."""
        y, upper = self.problem
        loss, margins = self._loss(state), self._margins(state)
        multipliers = y * upper * loss.curvature * loss.excess(margins)
        missing = self._coefficients(self._weights(state) - self._features_times(multipliers))
        violation = float(np.abs(self._products.times(missing)).max())
        stiffness = float(upper[loss.bends(margins)].sum()) * loss.curvature
        if self.method.fit_intercept and stiffness > 0:
            violation = max(violation, abs(float(multipliers.sum())) / stiffness)
        return violation

    def _newton(self, state: State, accuracy: float) -> Step:
        y, upper = self.problem
        loss, margins = self._loss(state), self._margins(state)
        bend = loss.bends(margins)
        curved = np.where(bend, upper * loss.curvature, 0.0)
        force = y * np.where(bend, curved * loss.start, upper * loss.curvature * loss.excess(margins))
        system = self._features_squared(curved)
        system[np.diag_indices_from(system)] += 1
        column = self._features_times(curved)
        vectors = np.column_stack([self._features_times(force), column])
        weights, of_column = linalg.solve(system, vectors, assume_a="pos", overwrite_a=True, check_finite=False).T
        shift = None
        if bend.any() and self.method.fit_intercept:
            intercept = float((force.sum() - column @ weights) / (curved.sum() - column @ of_column))
            weights, shift = weights - intercept * of_column, intercept - state.intercept
        delta = self._coefficients(weights) - y * state.alpha
        return Step(delta, self._products.times(delta), shift)

    # --- the features: K_MM^(-1/2) times columns of Gᵀ ---------------------------------------------------------

    def _values(self, start: int, stop: int) -> np.ndarray:
        """Return columns of Gᵀ."""
        slots = self.rows.fetch(self._basis)
        return self.rows.store[slots, start:stop].astype(np.float64, copy=False)

    def _features_times(self, vector: np.ndarray) -> np.ndarray:
        """Return the sum of the rows' features, each times its entry of a vector."""
        found = np.zeros(len(self._basis))
        for a, b in spans(len(vector), _COLUMNS):
            if vector[a:b].any():
                found += self._values(a, b) @ vector[a:b]
        return self._whitening @ found

    def _features_squared(self, weights: np.ndarray) -> np.ndarray:
        """Return the sum of the rows' features times themselves transposed, each times its weight, many of them 0."""
        m = len(self._basis)
        square = np.zeros((m, m))
        tiles = list(spans(m, _TILE_ROWS))
        for a, b in spans(len(weights), _COLUMNS):
            used = np.flatnonzero(weights[a:b])
            if len(used):
                values = self._values(a, b)[:, used] * np.sqrt(weights[a:b][used])
                features = np.empty_like(values)
                self.pool.run(_multiply, [(self._whitening[c:d], values, features[c:d]) for c, d in tiles])
                self.pool.run(_add_product, [(square[c:d], features[c:d], features) for c, d in tiles])
        return square


def _multiply(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    np.matmul(left, right, out=out)


def _add_product(out: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    out += left @ right.T
