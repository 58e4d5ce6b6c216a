"""Losses, one in a file. To add one, register it: see `fastsvm.losses.interface` and `register_loss`."""

from fastsvm.losses.crammer_singer import CrammerSinger
from fastsvm.losses.epsilon_insensitive import EpsilonInsensitive
from fastsvm.losses.hinge import Hinge
from fastsvm.losses.huber import Huber
from fastsvm.losses.interface import (
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
    is_piecewise,
    least_curvature,
    loss_curvature,
    loss_of_classes,
    loss_slope,
    loss_value,
    nearly,
    probabilities,
    projected_gradient,
    provides_dual,
    provides_newton,
    provides_probabilities,
    targets_and_costs,
    update_of_classes,
    violation_of_classes,
    write_costs,
)
from fastsvm.losses.log import Log
from fastsvm.losses.modified_huber import ModifiedHuber
from fastsvm.losses.registry import LOSSES, is_loss, loss_named, loss_names, register_loss
from fastsvm.losses.rows import add_losses, dual_losses, primal_losses, violation_of
from fastsvm.losses.softmax import Softmax
from fastsvm.losses.squared import Squared
from fastsvm.losses.squared_epsilon_insensitive import SquaredEpsilonInsensitive
from fastsvm.losses.squared_hinge import SquaredHinge
from fastsvm.losses.weston_watkins import WestonWatkins

__all__ = [
    "LOSSES",
    "MOST_STEPS",
    "CrammerSinger",
    "Demands",
    "EpsilonInsensitive",
    "Hinge",
    "Huber",
    "Log",
    "Loss",
    "ModifiedHuber",
    "RowAt",
    "Softmax",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "WestonWatkins",
    "add_losses",
    "box",
    "conjugate",
    "conjugate_curvature",
    "conjugate_of_classes",
    "coordinate_update",
    "cost_of",
    "demands_of_scores",
    "dual_losses",
    "feasible",
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
    "targets_and_costs",
    "update_of_classes",
    "violation_of",
    "violation_of_classes",
    "write_costs",
]
