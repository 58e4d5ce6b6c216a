"""On which data, with which parameters? One entry of `CASES` each."""

from dataclasses import replace
from functools import partial

from bench import made_up_tables, recipes, texts
from bench.classical.cases import CLASSICAL_CASES
from bench.harness.suite import Case
from bench.kernel.competitors import KernelParameters
from bench.kernel.small_tables import SMALL_CASES
from bench.linear.cases import LINEAR_MACHINE_CASES
from bench.linear.parameters import LinearParameters
from bench.machines.cases import MACHINE_CASES
from bench.millions.cases import MILLIONS_CASES
from bench.streaming.cases import STREAMING_CASES

__all__ = ["AVX2", "CASES", "cases_of"]

_KERNEL, _MULTICLASS, _PREDICT, _GROWTH = (("kernel",), ("multiclass",), ("predict",), ("growth",))
_SGD, _LINEAR, _TABLES, _WIDE = ("sgd",), ("linear",), ("tables",), ("wide_sparse",)
_MNIST = KernelParameters(C=10, gamma=0.02)
_MNIST_BYTES = KernelParameters(C=10, gamma=0.02 / 255**2)
_CIFAR = KernelParameters(C=10, gamma=0.002)
_CIFAR_BYTES = KernelParameters(C=10, gamma=0.002 / 255**2)
_DIGITS = KernelParameters(C=10, gamma=0.2)

AVX2 = "-avx2"
"""End of the names of cases that are restricted to AVX2."""
_INSTRUCTIONS = (
    "cod-rna-C1-gamma2", "cod-rna-C10-gamma0.5", "kdd-attacks", "vessels-50000", "board-C100", "sums-C1", "a9a",
    "a9a-C100", "mnist-odd-even-20000", "cifar-animal-vehicle-20000", "cifar-10-20000", "digits",
)  # fmt: skip

TABLE_CASES = [
    *[
        Case(f"cod-rna-C{C}-gamma{gamma:g}", _TABLES, recipes.cod_rna, KernelParameters(C=C, gamma=gamma))
        for C in (1, 10, 100, 1000)
        for gamma in (0.125, 0.5, 2)
    ],
    Case("kdd-attacks", _TABLES, partial(recipes.kdd, False), KernelParameters(C=10, gamma=0.02)),
    Case("kdd-kinds", _TABLES, partial(recipes.kdd, True), KernelParameters(C=10, gamma=0.02)),
    Case("vessels-50000", _TABLES, partial(recipes.vessels, 50_000), KernelParameters(C=10, gamma=1 / (75 * 40**2))),
    Case("a9a-C10", _TABLES, recipes.a9a, KernelParameters(C=10, gamma=0.05)),
    Case("board-C100", _TABLES, made_up_tables.board, KernelParameters(C=100, gamma=4)),
    Case("mixture-C10", _TABLES, made_up_tables.mixture, KernelParameters(C=10, gamma=0.1)),
    Case("mixture-C1000", _TABLES, made_up_tables.mixture, KernelParameters(C=1000, gamma=0.1)),
    Case("friedman-C100", _TABLES, made_up_tables.friedman, KernelParameters(C=100, gamma=0.05)),
    Case("sums-C1", _TABLES, made_up_tables.sums, KernelParameters(C=1, gamma=1 / 28)),
    Case("sums-C100", _TABLES, made_up_tables.sums, KernelParameters(C=100, gamma=1 / 28)),
    Case("one-hot-C10", _TABLES, made_up_tables.one_hot, KernelParameters(C=10, gamma=1 / 54)),
    Case("walks-C10", _TABLES, made_up_tables.walks, KernelParameters(C=10, gamma=1 / 60)),
    Case("arcs-C10", _TABLES, made_up_tables.arcs, KernelParameters(C=10, gamma=1)),
    Case("mixture-2000", _TABLES, partial(made_up_tables.mixture, 2500), KernelParameters(C=10, gamma=0.1), quick=True),
]

_FEW_WORDS, _ALL_WORDS = partial(texts.functions, 4000, 20_000), partial(texts.functions, 4000)
_LINEAR_KERNEL, _RBF = KernelParameters(C=10, kernel="linear"), KernelParameters(C=10, gamma=1)

WIDE_CASES = [
    Case("functions-linear", _WIDE, _FEW_WORDS, _LINEAR_KERNEL),
    Case("functions-rbf", _WIDE, _FEW_WORDS, _RBF),
    Case("functions-poly", _WIDE, _FEW_WORDS, KernelParameters(C=10, gamma=1, kernel="poly", coef0=1)),
    Case("functions-sigmoid", _WIDE, _FEW_WORDS, KernelParameters(C=10, gamma=1, kernel="sigmoid")),
    Case("functions-all-words-linear", _WIDE, _ALL_WORDS, _LINEAR_KERNEL),
    Case("functions-all-words-rbf", _WIDE, _ALL_WORDS, _RBF),
    Case("functions-once", _WIDE, partial(texts.functions, 4000, once=True), KernelParameters(C=10, gamma=0.003)),
    Case("functions-kinds", _WIDE, partial(texts.functions, 4000, kinds=True), _RBF),
    Case("functions-20000", _WIDE, partial(texts.functions, 20_000), _RBF),
    Case("words-20000-long", _WIDE, partial(texts.words, 4000, 20_000, 1000), KernelParameters(C=1, gamma=1e-4)),
    Case("words-800000", _WIDE, partial(texts.words, 4000, 800_000, 300), KernelParameters(C=1, gamma=1e-3)),
    Case("words-2000", _WIDE, partial(texts.words, 2000, 10_000, 60), KernelParameters(C=1, gamma=0.01), quick=True),
]

CASES = [
    Case("breast_cancer", _KERNEL, recipes.breast_cancer, KernelParameters(C=10, gamma=0.03), quick=True),
    Case("digits-odd-even", _KERNEL, recipes.digits_odd_even, _DIGITS, quick=True),
    Case("a9a", _KERNEL, recipes.a9a, KernelParameters(C=1, gamma=0.05)),
    Case("a9a-C100", _KERNEL, recipes.a9a, KernelParameters(C=100, gamma=0.05)),
    Case(
        "a9a-10000-C1000-tight", _KERNEL, partial(recipes.a9a, 10_000), KernelParameters(C=1000, gamma=0.05, tol=1e-5)
    ),
    Case("mnist-odd-even-20000", _KERNEL, partial(recipes.mnist_odd_even, 20_000), _MNIST),
    Case("cifar-animal-vehicle-20000", _KERNEL, partial(recipes.cifar_pixels, 20_000), _CIFAR),
    Case(
        "cifar-animal-vehicle-20000-standardised",
        _KERNEL,
        partial(recipes.cifar_standardised, 20_000),
        KernelParameters(C=10, gamma=1 / 3072),
    ),
    Case("iris", _MULTICLASS, recipes.iris, KernelParameters(C=1, gamma=0.1), quick=True),
    Case("digits", _MULTICLASS + _PREDICT, recipes.digits, _DIGITS, quick=True),
    Case("mnist-10", _MULTICLASS, recipes.mnist, _MNIST_BYTES),
    Case("cifar-10-20000", _MULTICLASS + _PREDICT, partial(recipes.cifar10, 20_000), _CIFAR_BYTES),
    Case("cifar-10-50000", _MULTICLASS, partial(recipes.cifar10, 50_000), _CIFAR_BYTES),
    *[
        Case(
            f"synthetic-{n}",
            _GROWTH,
            partial(recipes.synthetic, n),
            KernelParameters(C=10, gamma=0.01),
            quick=True,
            series="synthetic",
        )
        for n in (500, 1000, 2000)
    ],
    *[
        Case(
            f"cifar-bytes-{n}",
            _GROWTH,
            partial(recipes.cifar_bytes, n),
            _CIFAR_BYTES,
            series="CIFAR animals and vehicles",
        )
        for n in (2500, 5000, 10_000, 20_000, 40_000)
    ],
    Case("digits-sgd", _SGD, recipes.digits, LinearParameters("hinge", 1e-3), quick=True),
    Case("a9a-sgd", _SGD, recipes.a9a, LinearParameters("hinge", 1e-4)),
    Case("mnist-sgd-softmax", _SGD, recipes.mnist_pixels, LinearParameters("softmax", 1e-4)),
    Case("cifar-10-sgd", _SGD, recipes.cifar10_standardised, LinearParameters("hinge", 1e-2)),
    Case("cod-rna-sgd", _SGD, recipes.cod_rna, LinearParameters("hinge", 1e-4)),
    Case("cod-rna-unscaled-sgd", _SGD, partial(recipes.cod_rna, scaled=False), LinearParameters("hinge", 1e-4)),
    *[
        Case(f"{table.__name__.replace('_', '-')}-sgd", _SGD, table, LinearParameters("hinge", 1e-4))
        for table in (made_up_tables.mixture, made_up_tables.sums, made_up_tables.one_hot, made_up_tables.walks)
    ],
    Case("long-features-sgd", _SGD, made_up_tables.long_features, LinearParameters("squared_error", 1e-4)),
    Case("words-200000-sgd", _SGD, partial(texts.words, 26_667, 200_000, 80), LinearParameters("hinge", 1e-4)),
    Case("functions-sgd", _SGD, partial(texts.functions, 20_000), LinearParameters("hinge", 1e-4)),
    Case("functions-kinds-sgd", _SGD, partial(texts.functions, 20_000, kinds=True), LinearParameters("hinge", 1e-4)),
    Case("digits-linear", _LINEAR, recipes.digits, LinearParameters("hinge", C=1), quick=True),
    Case("a9a-linear", _LINEAR, recipes.a9a, LinearParameters("hinge", C=1)),
    Case("mnist-linear-squared", _LINEAR, recipes.mnist_pixels, LinearParameters("squared_hinge", C=0.01)),
    *[
        Case(
            f"cifar-10-20000-linear-C{C:g}",
            _LINEAR,
            partial(recipes.cifar10_centred, 20_000),
            LinearParameters("hinge", C=C),
        )
        for C in (0.01, 0.1)
    ],
    *TABLE_CASES,
    *SMALL_CASES,
    *WIDE_CASES,
    *CLASSICAL_CASES,
    *MACHINE_CASES,
    *LINEAR_MACHINE_CASES,
    *STREAMING_CASES,
    *MILLIONS_CASES,
]


CASES += [
    replace(one, name=f"{one.name}{suffix}", suites=("instructions",), avx2=bool(suffix), quick=one.name == "digits")
    for one in CASES
    if one.name in _INSTRUCTIONS
    for suffix in ("", AVX2)
]


def cases_of(suite: str) -> dict[str, Case]:
    """Return the cases of a suite by name."""
    return {case.name: case for case in CASES if suite in case.suites}
