"""Does the benchmark of searches compare the same folds, and tell who is how fast?"""

import numpy as np

from bench import search


def test_the_quick_run_compares_all_that_are_there(capsys):
    search.main(["--quick", "--only", "SVC"])
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("SVCSearch")]) >= 4  # told at once, and in the table
    assert any("C=10" in line for line in lines)


def test_ratios_and_differences_are_those_to_our_second_run():
    scores = np.full((5, 2), 0.9)
    found = [
        search.Found("SVCSearch, first in a process", 3.0, {"C": 1.0}, scores),
        search.Found("SVCSearch", 2.0, {"C": 1.0}, scores),
        search.Found("other", 50.0, {"C": 10.0}, scores - 0.01),
    ]
    other = search.table(found)[-1].split()
    assert other == ["other", "C=10", "50.0", "25.0", "0.8900", "0.0100"]
