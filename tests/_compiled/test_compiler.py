import os
import subprocess
import sys

import numpy as np
import pytest

from fastsvm._compiled.compiler import generic, jit
from fastsvm._compiled.processor import PLAIN
from fastsvm._compiled.scalars import exp, maximum, minimum


@jit
def all_exp(values, out):
    for i in range(values.size):
        out[i] = exp(values[i])


@jit
def extrema(values):
    least, greatest = values[0], values[0]
    for i in range(values.size):
        least = minimum(least, values[i])
        greatest = maximum(greatest, values[i])
    return least, greatest


def compiled_exp(values):
    out = np.empty_like(values)
    all_exp(values, out)
    return out


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [(np.float32, -86.9, 87.9), (np.float64, -707.9, 708.9)],
    ids=["float32", "float64"],
)
def test_exp_is_within_two_units_of_the_last_place(dtype, low, high):
    rng = np.random.default_rng(0)
    values = np.concatenate([np.linspace(low, high, 20_001), rng.uniform(-2, 2, 20_000), [0.0]]).astype(dtype)
    wanted = np.exp(values.astype(np.longdouble))
    unit = np.spacing(np.abs(wanted.astype(dtype)))
    assert (np.abs(compiled_exp(values) - wanted) / unit).max() <= 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_very_negative_numbers_is_negligible(dtype):
    found = compiled_exp(np.array([-800, -1e6, -np.finfo(dtype).max, -np.inf], dtype))
    assert (found >= 0).all()
    assert (found < 1e-37).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_very_large_numbers_is_finite_and_large(dtype):
    found = compiled_exp(np.array([800, 1e6, np.finfo(dtype).max], dtype))
    assert np.isfinite(found).all()
    assert (found > 1e38).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_exp_of_zero_is_one(dtype):
    assert compiled_exp(np.zeros(1, dtype))[0] == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 7, 64, 1001])
def test_minimum_and_maximum(n, dtype):
    values = np.random.default_rng(n).normal(size=n).astype(dtype)
    values[n // 2] = 1e30
    assert extrema(values) == (values.min(), values.max())


def test_infinity_is_an_extremum():
    assert extrema(np.array([0.0, np.inf, -np.inf, 1.0])) == (-np.inf, np.inf)


def test_a_generic_function_without_a_body_for_a_class():
    @generic
    def area(shape):
        """Have no bodies."""

    with pytest.raises(KeyError):
        area(3)


# --- the cache of machine code ---------------------------------------------------------------------------

PROGRAM = """
from fastsvm import probe
from fastsvm.kernels import RBF
found = probe.value(RBF(2.0), 3.0)  # a squared distance of 3
stats = probe.value.stats
print(found, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def use(importing, package, cache):
    value, hits, misses = importing.run(PROGRAM, package.parent, NUMBA_CACHE_DIR=cache).split()
    return float(value), int(hits), int(misses)


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_a_second_process_finds_the_code_and_an_edited_helper_is_seen(importing, package, tmp_path):
    cache = tmp_path / "cache"
    first = use(importing, package, cache)
    second = use(importing, package, cache)
    assert first == (np.exp(-6.0), 0, 1)
    assert second == (np.exp(-6.0), 1, 0)

    helper = package / "_compiled" / "scalars.py"  # not the file of the cached function
    text = helper.read_text(encoding="utf-8")
    edited = text.replace("p * r + 1.0\n    exponent = np.float64", "p * r + 3.0\n    exponent = np.float64")
    assert edited != text
    helper.write_text(edited, encoding="utf-8")
    value, hits, misses = use(importing, package, cache)
    assert value > 2 * first[0]
    assert (hits, misses) == (0, 1)

    helper.write_text(text + "\n# A remark.\n", encoding="utf-8")
    assert use(importing, package, cache) == second


@pytest.mark.parametrize("gone", ["the class", "its module"])
def test_code_for_a_class_that_another_version_has_does_no_harm(gone, importing, package, tmp_path):
    kinds, probe = package / "kinds.py", package / "probe.py"
    probe.write_text(probe.read_text() + "\n@jit\ndef first(pair):\n    return pair[0]\n")
    kinds.write_text("from typing import NamedTuple\nclass Pair(NamedTuple):\n    a: float\n    b: float\n")
    program = "from fastsvm import probe\n{}\nprint(probe.first({}))"
    cache = {"NUMBA_CACHE_DIR": tmp_path / "cache"}
    first = program.format("from fastsvm.kinds import Pair", "Pair(1.0, 2.0)")
    assert importing.run(first, package.parent, **cache).split() == ["1.0"]
    if gone == "the class":
        kinds.write_text("")
    else:
        kinds.unlink()
    assert importing.run(program.format("", "(3.0, 4.0)"), package.parent, **cache).split() == ["3.0"]
    assert importing.run(program.format("", "(3.0, 4.0)"), package.parent, **cache).split() == ["3.0"]


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_the_code_of_the_newest_versions_is_kept(importing, package, tmp_path):
    probe = package / "probe.py"
    text = probe.read_text(encoding="utf-8")
    for version in range(5):  # of different lengths: Python tells versions of one second by the length
        probe.write_text(text.replace("dot + dot)", f"dot + dot) + 1{'0' * version}"), encoding="utf-8")
        use(importing, package, tmp_path / "cache")
    (folder,) = (tmp_path / "cache").iterdir()
    assert len(list(folder.glob("probe.value-*"))) == 4


CALLER = """
@jit
def caller(kernel, dot):
    return value(kernel, dot) + 1.0

@jit
def other_caller(kernel, dot):
    return value(kernel, dot) + 1.0
"""
CALLED_BOTH_WAYS = """
from fastsvm import probe
from fastsvm.kernels import RBF

def known():
    stats = probe.value.stats
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())

{first}
print(found, *known(), {second}, *known())
"""
FROM_PYTHON = "probe.value(RBF(2.0), 3.0)"
FROM_CODE = "probe.caller(RBF(2.0), 3.0) - 1.0"
FROM_OTHER_CODE = "probe.other_caller(RBF(2.0), 3.0) - 1.0"


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_a_function_is_called_by_compiled_code_and_by_python_in_any_order(importing, package, tmp_path):
    """What compiled code alone has called has no machine code of its own until Python calls it."""
    probe = package / "probe.py"
    probe.write_text(probe.read_text() + CALLER)
    value = repr(float(np.exp(-6.0)))
    within = repr(float(np.exp(-6.0) + 1.0 - 1.0))

    def calls(first, second, cache):
        code = CALLED_BOTH_WAYS.format(first=f"found = {first}", second=second)
        return importing.run(code, package.parent, NUMBA_CACHE_DIR=tmp_path / cache).split()

    assert calls(FROM_CODE, FROM_PYTHON, "a") == [within, "0", "1", value, "0", "2"]
    assert calls(FROM_CODE, FROM_PYTHON, "a") == [within, "0", "0", value, "1", "0"]
    assert calls(FROM_PYTHON, FROM_CODE, "b") == [value, "0", "1", within, "0", "1"]
    assert calls(FROM_CODE, "None", "c") == [within, "0", "1", "None", "0", "1"]
    assert calls(FROM_OTHER_CODE, FROM_PYTHON, "c") == [within, "1", "0", value, "1", "1"]
    assert calls(FROM_CODE, FROM_PYTHON, "c") == [within, "0", "0", value, "1", "0"]


# --- what is said of compiling -----------------------------------------------------------------------------------

TOLD = """
import logging, sys, time
import fastsvm.kernels
from fastsvm import probe
from fastsvm._compiled import compilations
from numba.core import event

compilations._SILENT_SECONDS = float(sys.argv[1])
if sys.argv[2] == "logged":
    logging.basicConfig(format="%(name)s %(levelname)s %(message)s", stream=sys.stdout)
begin, clock = time.perf_counter(), compilations.work_clock()
probe.value(fastsvm.kernels.RBF(2.0), 3.0)
spent, worked = time.perf_counter() - begin, compilations.work_clock() - clock
assert abs(spent - worked - compilations.COMPILATIONS.seconds) < 1e-3, (spent, worked)
assert (compilations.COMPILATIONS.seconds > 0) == (sys.argv[3] == "compiled")
probe.value(fastsvm.kernels.Linear(), 3.0)
"""


@pytest.mark.skipif(PLAIN, reason="plain Numba keeps no machine code")
def test_one_line_says_that_a_process_compiles(package, tmp_path):
    """Without a terminal too: standard error is a pipe here."""

    def told(silent, where, what):
        command = [sys.executable, "-c", TOLD, str(silent), where, what]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / f"{silent}{where}")}
        ended = subprocess.run(command, cwd=package.parent, env=environment, text=True, capture_output=True, check=True)
        return ended.stdout, ended.stderr

    out, line = told(0, "shown", "compiled")
    assert out == "" and line.startswith("fastsvm: compiling; ") and line.count("\n") == 1
    assert told(0, "shown", "loaded") == ("", "")
    line, err = told(0, "logged", "compiled")
    assert err == "" and line.startswith("fastsvm INFO compiling; ") and line.count("\n") == 1
    assert told(60, "shown", "compiled") == ("", "")
