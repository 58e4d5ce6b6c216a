"""Which estimator of ours does a suite fit, with a tolerance of its own? Imports nothing but the standard library."""

from dataclasses import replace
from typing import Any

from bench.harness.competitor import OURS, Resources
from bench.kernel.competitors import COMPETITORS, KernelParameters
from bench.linear.competitors import linear_competitor
from bench.linear.parameters import LinearParameters
from bench.machines.competitors import machine_competitor
from bench.machines.parameters import MachineParameters

__all__ = ["SUITES", "build", "parameters_of"]

SUITES = (
    "kernel", "tables", "multiclass", "small", "wide_sparse", "machines", "predict", "linear", "linear_machines", "sgd",
    "landmarks",
)  # fmt: skip
"""Suites whose cases may be fitted in turn, with the same parameters."""

_KINDS = {"machines": MachineParameters, "linear": LinearParameters, "linear_machines": LinearParameters}
_KINDS["sgd"] = LinearParameters
_TOL = 1e-3  # the default of LinearSVC, to which linear machines are fitted
_EPOCHS = 10  # of gradient descent
_LANDMARKS = {"n_components": 1024, "memory": "120MB"}  # whose features of 20,000 samples fit in half precision only


def parameters_of(suite: str, fields: dict[str, Any]) -> Any:
    """Return the parameters of a case of a suite from their fields."""
    return _KINDS.get(suite, KernelParameters)(**fields)


def build(suite: str, parameters: Any, n_rows: int, resources: Resources) -> Any:
    """Return the estimator that is fitted to so many rows."""
    if suite == "machines":
        return machine_competitor(OURS).build(parameters, resources)
    if suite == "sgd":
        return linear_competitor("sgd", OURS).build(replace(parameters.of_rows(n_rows), budget=_EPOCHS), resources)
    if suite == "landmarks":
        from fastsvm import NystroemSVC

        given = {"C": parameters.C, "gamma": parameters.gamma, "tol": _TOL}
        return NystroemSVC(**given, **_LANDMARKS, random_state=0)
    if isinstance(parameters, LinearParameters):
        return linear_competitor("linear_machines", OURS).build(replace(parameters, budget=_TOL), resources)
    return next(one for one in COMPETITORS if one.name == OURS).build(parameters, resources)
