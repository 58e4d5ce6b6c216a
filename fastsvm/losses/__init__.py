"""Losses, one in a file and one in a line here. To add one, see `fastsvm.losses.interface`; `check_loss` checks it."""

from fastsvm.losses.check import check_loss
from fastsvm.losses.crammer_singer import CrammerSinger as CrammerSinger
from fastsvm.losses.epsilon_insensitive import EpsilonInsensitive as EpsilonInsensitive
from fastsvm.losses.hinge import Hinge as Hinge
from fastsvm.losses.huber import Huber as Huber
from fastsvm.losses.interface import (
    LOSSES,
    MOST_STEPS,
    Demands,
    Loss,
    RowAt,
    box,
    conjugate,
    conjugate_curvature,
    conjugate_of_classes,
    coordinate_update,
    cost_of,
    demands_of_scores,
    feasible,
    is_loss,
    is_piecewise,
    least_curvature,
    loss_curvature,
    loss_named,
    loss_names,
    loss_of_classes,
    loss_slope,
    loss_value,
    nearly,
    probabilities,
    projected_gradient,
    provides_dual,
    provides_newton,
    provides_probabilities,
    register_loss,
    targets_and_costs,
    update_of_classes,
    violation_of_classes,
    write_costs,
)
from fastsvm.losses.log import Log as Log
from fastsvm.losses.modified_huber import ModifiedHuber as ModifiedHuber
from fastsvm.losses.rows import add_losses, dual_losses, in_score, primal_losses, sums_of_rows, violation_of
from fastsvm.losses.softmax import Softmax as Softmax
from fastsvm.losses.squared import Squared as Squared
from fastsvm.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive as SquaredEpsilonInsensitive
from fastsvm.losses.squared_hinge import SquaredHinge as SquaredHinge
from fastsvm.losses.weston_watkins import WestonWatkins as WestonWatkins

__all__ = [
    "LOSSES",
    "MOST_STEPS",
    "Demands",
    "Loss",
    "RowAt",
    "add_losses",
    "box",
    "check_loss",
    "conjugate",
    "conjugate_curvature",
    "conjugate_of_classes",
    "coordinate_update",
    "cost_of",
    "demands_of_scores",
    "dual_losses",
    "feasible",
    "in_score",
    "is_loss",
    "is_piecewise",
    "least_curvature",
    "loss_curvature",
    "loss_named",
    "loss_names",
    "loss_of_classes",
    "loss_slope",
    "loss_value",
    "nearly",
    "primal_losses",
    "probabilities",
    "projected_gradient",
    "provides_dual",
    "provides_newton",
    "provides_probabilities",
    "register_loss",
    "sums_of_rows",
    "targets_and_costs",
    "update_of_classes",
    "violation_of",
    "violation_of_classes",
    "write_costs",
]
