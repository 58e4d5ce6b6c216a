"""Reports as text, and messages."""

import subprocess
import sys

import fastsvm
from fastsvm.cli import show
from fastsvm.messages import in_options


def test_all_parameters_that_a_search_found_are_printed(capsys):
    show({"search": {"parameters": {"C": 10.0, "gamma": 0.1}, "mean_score": 0.9}}, False)
    assert capsys.readouterr().out.splitlines() == ["search  parameters: C=10, gamma=0.1", "        mean_score: 0.9"]


def test_parameters_are_options_on_the_command_line():
    assert in_options("pass id=0. Name one with label=.") == "pass --id 0. Name one with --label."
    assert (
        in_options("pass label=False; set split='test' or format= to")
        == "pass --no-label; set --split 'test' or --format to"
    )
    assert in_options("memory=3 MB; /data/id=3/rows.csv is empty") == "memory=3 MB; /data/id=3/rows.csv is empty"


def test_the_version_is_said_before_anything_is_imported():
    command = [sys.executable, "-X", "importtime", "-m", "fastsvm", "--version"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == f"fastsvm {fastsvm.__version__}\n"
    assert not any(package in ended.stderr for package in ("numba", "scipy", "sklearn", "numpy"))
