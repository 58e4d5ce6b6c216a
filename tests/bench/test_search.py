"""Does the benchmark of searches compare the same folds, and tell who is how fast?"""

import json

import numpy as np

from bench.searches import grid as search


def test_the_quick_run_compares_all_that_are_there(capsys, tmp_path):
    assert search.main(["--quick", "--only", "SVC", "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("SVCSearch")]) >= 4  # told at once, and in the table
    assert any("C=10" in line for line in lines)
    (path,) = tmp_path.glob("search-*.json")
    (case,) = json.loads(path.read_text(encoding="utf-8"))["cases"]
    assert case["cells"] == 4 and np.shape(case["results"][1]["scores"]) == (5, 4)


def test_ratios_and_differences_are_those_to_our_second_run():
    found = [
        {"competitor": name, "seconds": seconds, "best": {"C": C}, "scores": np.full((5, 2), score)}
        for name, seconds, C, score in (
            ("SVCSearch, first in a process", 3.0, 1.0, 0.9), ("SVCSearch", 2.0, 1.0, 0.9), ("other", 50.0, 10.0, 0.89)
        )
    ]  # fmt: skip
    other = search.table(found)[-1].split()
    assert other == ["other", "C=10", "50.0", "25.0", "0.8900", "0.0100"]
