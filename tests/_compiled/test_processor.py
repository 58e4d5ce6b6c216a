"""Levels of processors: which of them a host has, and that our code alone is compiled for them."""

import numba
import pytest
from llvmlite import binding

from fastsvm._compiled import processor
from fastsvm._compiled.compiler import jit
from fastsvm._compiled.processor import LEVEL, PLAIN, levels

NEHALEM = "cx16 popcnt sahf sse2 sse3 sse4.1 sse4.2 ssse3"
HASWELL = NEHALEM + " avx avx2 bmi bmi2 f16c fma lzcnt movbe"
ALDER_LAKE = HASWELL + " avxvnni gfni"
SKYLAKE_X = HASWELL + " avx512bw avx512cd avx512dq avx512f avx512vl"
ZEN_4 = SKYLAKE_X + " avx512bf16 avx512vnni gfni"


class Features(dict):
    def flatten(self):
        return ",".join(f"+{name}" for name, has in self.items() if has)


@pytest.mark.parametrize(
    ("features", "level"),
    [
        ("sse2", "x86-64"),
        (NEHALEM, "x86-64-v2"),
        (HASWELL.replace("movbe", ""), "x86-64-v2"),
        (HASWELL, "x86-64-v3"),
        (ALDER_LAKE, "x86-64-v3-vnni"),
        (SKYLAKE_X, "x86-64-v4"),
        (ZEN_4, "x86-64-v4-vnni"),
    ],
)
def test_the_highest_level_of_a_host_is_first(features, level, monkeypatch):
    monkeypatch.setattr(processor.platform, "machine", lambda: "x86_64")
    here = Features(dict.fromkeys(features.split(), True) | {"avx512fp16": False})
    monkeypatch.setattr(processor.binding, "get_host_cpu_features", lambda: here)
    found = [each.name for each in levels()]
    assert found[0] == level
    assert found[-1] == "x86-64"


def test_an_architecture_without_levels_has_that_of_its_host(monkeypatch):
    monkeypatch.setattr(processor.platform, "machine", lambda: "ppc64le")
    (level,) = levels()
    assert level.processor == binding.get_host_cpu_name()
    assert level.more == binding.get_host_cpu_features().flatten()


def test_a_level_that_the_host_lacks_is_refused(monkeypatch):
    monkeypatch.setenv("FASTSVM_PROCESSOR", "x86-64-v9")
    with pytest.raises(
        ValueError, match=f"PROCESSOR=x86-64-v9 is no level of this processor. It has {levels()[0].name}"
    ):
        processor._level()
    monkeypatch.setenv("FASTSVM_PROCESSOR", levels()[-1].name)
    assert processor._level() == levels()[-1]


@pytest.mark.skipif(PLAIN, reason="plain Numba compiles for the host")
def test_our_code_is_for_the_level_and_that_of_others_for_the_host():
    def twice(x):
        return 2 * x

    for decorate, name in ((jit, LEVEL.processor), (numba.njit, binding.get_host_cpu_name())):
        function = decorate(twice)
        assert function(3.0) == 6.0
        (result,) = function.overloads.values()
        assert result.library.codegen.magic_tuple()[1] == name


def test_a_compiled_wheel_is_for_the_highest_level_that_it_has(monkeypatch, tmp_path):
    monkeypatch.delenv("FASTSVM_PROCESSOR", raising=False)
    monkeypatch.setattr(processor, "SHIPPED", tmp_path)
    assert processor._level() == levels()[0]
    (tmp_path / "levels.py27.numba0.1").write_text(levels()[-1].name)  # of other versions
    assert processor._level() == levels()[0]
    (tmp_path / f"levels.{processor.VERSIONS}").write_text(f"{levels()[-1].name}\nanother")
    assert processor._level() == levels()[-1]
