"""Logistic regression, L1 penalties and the machine of one class: on which data, with which parameters?"""

from functools import partial

import numpy as np

from bench import recipes, texts
from bench.harness.data import Data
from bench.harness.suite import Case
from bench.linear.parameters import LinearParameters

__all__ = ["LINEAR_MACHINE_CASES"]

_SUITE, _NUS = ("linear_machines",), (0.01, 0.1, 0.5)


def sequences() -> Data:
    """Return features between -1 and 1 with their zeros: of standardised ones, one class has nothing to learn."""
    data = recipes.cod_rna(scaled=False)
    most = np.abs(data.X).max(axis=0)
    return data._replace(X=data.X / most, X_test=data.X_test / most)


def of_one_class(recipe) -> Data:
    """Return the samples without their classes."""
    data = recipe()
    return data._replace(y=np.zeros(len(data.y)), y_test=np.zeros(len(data.y_test)))


def _classes(name: str, recipe, *, quick: bool = False) -> list[Case]:
    return [
        Case(f"{name}-{words}", _SUITE, recipe, LinearParameters(loss, C=1, penalty=penalty), quick=quick)
        for words, loss, penalty in (
            ("logistic", "log_loss", "l2"), ("logistic-l1", "log_loss", "l1"), ("l1", "squared_hinge", "l1")
        )
    ]  # fmt: skip


def _texts() -> list[Case]:
    recipe = partial(texts.functions, 100_000)
    return [
        Case(f"texts-{words}", _SUITE, recipe, LinearParameters(loss, C=1))
        for words, loss in (("hinge", "hinge"), ("squared", "squared_hinge"), ("logistic", "log_loss"))
    ]


def _one_class(name: str, recipe) -> list[Case]:
    recipe = partial(of_one_class, recipe)
    return [Case(f"{name}-nu{nu:g}", _SUITE, recipe, LinearParameters("outlier", nu=nu)) for nu in _NUS]


LINEAR_MACHINE_CASES = [
    *_classes("cancer", recipes.breast_cancer, quick=True),
    *_classes("cod-rna", recipes.cod_rna),
    *_classes("a9a", recipes.a9a),
    *_classes("mnist-odd-even-10000", partial(recipes.mnist_odd_even, 10_000)),
    *_classes("functions", partial(texts.functions, 4000)),
    *_texts(),
    *_one_class("a9a", recipes.a9a),
    *_one_class("cod-rna", sequences),
    *_one_class("mnist", recipes.mnist_pixels),
]
