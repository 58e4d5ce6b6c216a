"""What is asked, who judges an answer, and how is it shown? One entry of `SUITES` each."""

from functools import partial

from bench.classical import referee as classical_referee
from bench.classical import table as classical_table
from bench.classical import tuning
from bench.classical.competitors import CLASSICAL_COMPETITORS
from bench.harness.competitor import Competitor
from bench.harness.suite import Suite, View
from bench.kernel import picture as kernel_picture
from bench.kernel import referee as kernel_referee
from bench.kernel import table as kernel_table
from bench.kernel.competitors import COMPETITORS
from bench.linear import curves, goals
from bench.linear import picture as linear_picture
from bench.linear import referee as linear_referee
from bench.linear.competitors import LINEAR_COMPETITORS
from bench.machines import referee as machines_referee
from bench.machines.competitors import MACHINE_COMPETITORS
from bench.millions import files
from bench.millions import picture as millions_picture
from bench.millions import referee as millions_referee
from bench.millions import table as millions_table
from bench.millions.competitors import MILLIONS_COMPETITORS
from bench.streaming import big_file, comparison
from bench.streaming import picture as streaming_picture
from bench.streaming import referee as streaming_referee
from bench.streaming.competitors import STREAMING_COMPETITORS

__all__ = ["SUITES", "competitors_of"]

_FIT, _CURVE = "bench.workers.fit", "bench.workers.curve"
_KERNEL_VIEW = View(kernel_table.compared, kernel_table.lines, kernel_picture.figure)
_kernel = partial(Suite, judge=kernel_referee.judge, competitors=COMPETITORS, view=_KERNEL_VIEW)
_linear = partial(
    Suite, clock="a fit", worker=_CURVE, judge=linear_referee.judge, competitors=LINEAR_COMPETITORS, stays="case"
)

SUITES = {
    "kernel": _kernel("Fit of an exact kernel SVM, two classes", "fit", _FIT, "fit"),
    "tables": _kernel("Fit of an exact kernel SVM to ordinary tables", "fit", _FIT, "fit"),
    "small": _kernel("Fit of an exact kernel SVM to few samples, again and again", "fit", _FIT, "fits", stays="case"),
    "wide_sparse": _kernel("Fit of an exact kernel SVM to text and other wide sparse samples", "fit", _FIT, "fit"),
    "multiclass": _kernel("Fit of an exact kernel SVM, several classes", "fit", _FIT, "fit"),
    "machines": Suite(
        "Fit of SVR, NuSVR, NuSVC and OneClassSVM",
        "fit",
        "bench.workers.machines",
        "fit",
        machines_referee.judge,
        MACHINE_COMPETITORS,
        _KERNEL_VIEW,
        enough_s=10.0,
    ),
    "predict": _kernel("Prediction of the test samples", "prediction", _FIT, "predict", stays="case"),
    "instructions": _kernel("The same fits with all instructions, and restricted to AVX2", "fit", _FIT, "fit"),
    "growth": _kernel("Time and memory as the number of samples doubles", "fit", _FIT, "fit"),
    "sgd": _linear(
        "Gradient descent on linear models: objective and accuracy over time",
        stage="sgd",
        view=View(curves.compared, curves.lines, linear_picture.figure),
    ),
    "linear": _linear(
        "Linear SVMs, fitted to convergence: distance from the best objective over time",
        stage="linear",
        view=View(goals.compared, goals.lines, partial(linear_picture.figure, goal=goals.GOAL)),
    ),
    "linear_machines": _linear(
        "Logistic regression, L1 penalties and one class without a kernel: seconds to the same objective",
        stage="linear_machines",
        view=View(partial(goals.compared, goal=goals.SAME), partial(goals.lines, goal=goals.SAME), None),
        enough_s=2.0,
    ),
    "classical": Suite(
        "Textbook methods: coordinate ascent, the loops of tutorials, the primal",
        "fit",
        "bench.workers.classical",
        "classical",
        classical_referee.judge,
        CLASSICAL_COMPETITORS,
        View(classical_table.compared, classical_table.lines, None, classical_table.failures),
        stays="case",
        prepare=tuning.tuned,
        enough_s=60.0,
    ),
    "streaming": Suite(
        "A linear SVM from a file, beside reading it and beside partial_fit",
        "fit",
        "bench.workers.streaming",
        "streaming",
        streaming_referee.judge,
        STREAMING_COMPETITORS,
        View(comparison.compared, comparison.lines, streaming_picture.figure, comparison.failures),
        stays_quick="run",
        prepare=big_file.written,
        most_repeats=1,
    ),
    "millions": Suite(
        "Kernel machines of many samples: accuracy over time",
        "a fit, from the file",
        "bench.workers.millions",
        "millions",
        millions_referee.judge,
        MILLIONS_COMPETITORS,
        View(millions_table.compared, millions_table.lines, millions_picture.figure, millions_table.failures),
        stays="case",
        prepare=files.written,
        most_repeats=1,
    ),
}


def competitors_of(suite: str) -> dict[str, Competitor]:
    """Return the competitors of a suite by name."""
    return {one.name: one for one in SUITES[suite].competitors if suite in one.suites}
