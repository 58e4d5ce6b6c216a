"""Bars that are shown, and what stands in for them."""

import io

import pytest

from fastsvm.progress_bar import progress_bar


@pytest.mark.parametrize("where", ["none", "no terminal", "unwanted"])
def test_bars_that_are_not_shown(where, monkeypatch, capsys):
    if where != "unwanted":
        monkeypatch.setattr("sys.stderr", None if where == "none" else io.StringIO())
    shown = where != "unwanted"
    assert list(progress_bar(range(3), shown=shown, desc="counting")) == [0, 1, 2]
    with progress_bar(shown=shown, total=3, unit="row") as bar:
        bar.update(2)
        bar.set_postfix(left="1s")
        bar.set_postfix_str("dense")
        bar.refresh()
    assert bar.disable and capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stderr", terminal)
    with progress_bar(range(3), desc="counting") as bar:
        assert not bar.disable and list(bar) == [0, 1, 2]
    assert "counting: 100%" in terminal.getvalue()
