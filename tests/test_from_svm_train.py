"""docs/coming_from/libsvm.md has a row for each option of the programs, and names parameters and options that exist."""

import re
from pathlib import Path

import pytest

from fastsvm.cli import make_parser
from fastsvm.estimators.registry import ESTIMATORS

PAGE = (Path(__file__).parents[1] / "docs" / "coming_from" / "libsvm.md").read_text(encoding="utf-8")
USAGE = {
    "svm-train": {
        "-s": "01234",
        "-t": "01234",
        **dict.fromkeys(["-d", "-g", "-r", "-c", "-n", "-p", "-m", "-e", "-h", "-b", "-wi", "-v", "-q"], ""),
    },
    "svm-predict": {"-b": "", "-q": ""},
    "svm-scale": {"-l": "", "-u": "", "-y": "", "-s": "", "-r": ""},
    "LIBLINEAR's train": {
        "-s": ("0", "1", "2", "3", "4", "5", "6", "7", "11", "12", "13", "21"),
        **dict.fromkeys(["-c", "-p", "-n", "-e", "-B", "-R", "-wi", "-v", "-C", "-q"], ""),
    },
    "LIBLINEAR's predict": {"-b": "", "-q": ""},
}
"""Options of LIBSVM 3.3 and LIBLINEAR 2.4 with their choices, as the programs print them."""


def rows(program):
    """Return the cells of the options' rows of a program."""
    section = PAGE.split(f"\n## {program}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `-")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@pytest.mark.parametrize("program", USAGE)
def test_each_option_of_a_program_has_a_row(program):
    expected = {f"{flag} {choice}".strip() for flag, choices in USAGE[program].items() for choice in choices or [""]}
    found = [option for cells in rows(program) for option in re.findall(r"`(.*?)`", cells[0])]
    assert sorted(found) == sorted(expected)
    assert all(len(cells) == 4 and cells[1] and (cells[2] or cells[3]) for cells in rows(program))


def test_options_and_parameters_in_the_tables_exist():
    train = make_parser()._subparsers._group_actions[0].choices["train"]
    cells = [cells for program in USAGE for cells in rows(program)]
    options = {option for each in cells for option in re.findall(r"--[\w-]+", each[3])}
    assert options and options <= train._option_string_actions.keys()
    known = {name for kind in ESTIMATORS.values() for name in kind().get_params()} | {"nu", "cv", "feature_range"}
    known |= {"ensemble"}
    parameters = {name for each in cells for name in re.findall(r"\b([\w]+)=", each[2])}
    assert parameters and parameters <= known
