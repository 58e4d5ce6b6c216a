"""The examples of the gallery run, and draw."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from forked import beginning

plt = pytest.importorskip("matplotlib.pyplot")
ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "docs" / "examples").glob("plot_*.py"))}


@pytest.fixture
def forked(request, monkeypatch, tmp_path):
    """Let a process that runs code begin with fastsvm imported, which takes most of its time."""

    def run(words, env, **given):
        code, *arguments = words[2:]
        process = request.getfixturevalue("forks").start(*arguments, code=beginning(env) + code, folder=tmp_path)
        out, err = process.communicate()
        assert process.returncode == 0, err
        return SimpleNamespace(stdout=out)

    if hasattr(os, "fork"):
        monkeypatch.setattr(subprocess, "run", run)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_runs(name, forked, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FASTSVM_DATA", raising=False)  # on real data they take longer
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    plt.switch_backend("Agg")
    drawn = []
    monkeypatch.setattr(plt, "show", lambda: drawn.extend(plt.get_fignums()) or plt.close("all"))
    runpy.run_path(str(EXAMPLES[name]))
    assert drawn and not plt.get_fignums()


def test_examples_have_titles_and_numbers():
    found = {
        name: re.match(r'"""\n(.+)\n(=+)\n\n', path.read_text(encoding="utf-8")) for name, path in EXAMPLES.items()
    }
    assert all(match and len(match[1]) == len(match[2]) for match in found.values())
    assert len({match[1] for match in found.values()}) == len(found)
    assert [name[:7] for name in found] == [f"plot_{number:02}" for number in range(1, len(found) + 1)]
