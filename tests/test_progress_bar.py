"""Bars that are shown, what stands in for them, and messages."""

import io
import logging
import subprocess
import sys

import pytest
from sklearn.datasets import make_classification

from fastsvm import SVC, LinearSVC, SGDClassifier, SVCSearch
from fastsvm import progress_bar as module
from fastsvm.messages import tell
from fastsvm.progress_bar import progress_bar


@pytest.fixture
def unheard(monkeypatch):
    """Let the logger have no handler, as in a program that configures no logging; pytest has some."""
    monkeypatch.setattr(logging.getLogger("fastsvm"), "hasHandlers", lambda: False)


@pytest.fixture
def at_once(monkeypatch):
    """Let the first line be due at once, and each further one."""
    monkeypatch.setattr(module, "_FIRST_LINE", 0.0)
    monkeypatch.setattr(module, "_LONGEST_PAUSE", 0.0)


@pytest.mark.parametrize("where", ["none", "unwanted"])
def test_bars_that_are_not_shown(where, monkeypatch, capsys):
    if where == "none":
        monkeypatch.setattr("sys.stderr", None)
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


def test_a_notebook_has_a_bar_of_text(monkeypatch):
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr("sys.stderr", stream)
    assert list(progress_bar(range(3), desc="counting")) == [0, 1, 2]
    assert not stream.isatty() and "counting: 100%" in stream.getvalue()


def test_a_notebook_without_widgets_has_no_warning():
    """As where a kernel runs and `ipywidgets` is missing."""
    program = """
import sys, types
sys.modules["ipykernel.zmqshell"] = types.ModuleType("zmqshell")
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: object())
sys.modules["ipywidgets"] = None
import fastsvm.progress_bar
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


# --- lines, where there is no terminal ---------------------------------------------------------------------------


def test_lines_come_after_one_second_then_two_then_four(monkeypatch, capsys, unheard):
    bar, clock = progress_bar(total=1000, unit="row", desc="reading"), [0.0]
    monkeypatch.setattr(bar, "_time", lambda: bar.start_t + clock[0])
    for clock[0] in range(1, 1001):
        bar.n += 1
        bar.refresh()
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    wanted = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 812]  # at least one in 5 minutes
    assert lines == [f"fastsvm: reading: {n}/1000 row [{n // 60:02}:{n % 60:02}]" for n in wanted]


def test_an_iteration_tells_how_far_it_is(at_once, capsys, unheard):
    assert list(progress_bar(range(3), desc="search", unit="group", mininterval=0)) == [0, 1, 2]
    assert capsys.readouterr().err.splitlines()[-1].startswith("fastsvm: search: 3/3 group [00:00")


def test_no_line_of_what_ends_within_a_second(capsys, unheard):
    assert list(progress_bar(range(3), desc="search")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (SVC(C=1000, gamma=0.1), ("duality gap", "% of it)", "violated by at most")),
        (LinearSVC(), ("duality gap", "violated by at most")),
        (SGDClassifier(), ("objective",)),
    ],
)
def test_a_verbose_fit_says_how_it_ended(model, words, capsys, unheard):
    X, y = make_classification(100, random_state=0)
    model.set_params(verbose=True).fit(X, y)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith(f"fastsvm: {type(model).__name__}: {model.stop_reason_}, ")
    assert all(word in line for word in words)
    model.set_params(verbose=False).fit(X, y)
    assert capsys.readouterr().err == ""


def test_a_verbose_search_says_what_it_found(capsys, unheard):
    X, y = make_classification(100, random_state=0)
    search = SVCSearch(SVC(), {"C": [0.1, 1.0]}, verbose=2).fit(X, y)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("fastsvm: SVCSearch: 2 cells, 10 fits, ") and line.endswith(f"best: {search.best_params_}")


# --- the logger ----------------------------------------------------------------------------------------------


def test_an_application_gets_the_messages_by_its_handlers(caplog, capsys):
    tell("a message")
    assert [(one.name, one.levelname, one.message) for one in caplog.records] == [("fastsvm", "INFO", "a message")]
    assert capsys.readouterr().err == ""


def test_the_level_of_the_logger_silences_them(caplog, capsys, monkeypatch):
    logger = logging.getLogger("fastsvm")
    monkeypatch.setattr(logger, "level", logging.WARNING)
    logger._cache.clear()
    tell("a message")
    monkeypatch.setattr(logger, "hasHandlers", lambda: False)
    tell("a message")
    logger._cache.clear()
    assert not caplog.records and capsys.readouterr().err == ""
