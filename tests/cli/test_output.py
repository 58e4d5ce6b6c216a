"""Reports as text."""

from fastsvm.cli.output import show


def test_all_parameters_that_a_search_found_are_printed(capsys):
    show({"search": {"parameters": {"C": 10.0, "gamma": 0.1}, "mean_score": 0.9}}, False)
    assert capsys.readouterr().out.splitlines() == ["search  parameters: C=10, gamma=0.1", "        mean_score: 0.9"]
