"""Reports of runs: pages that stand alone, say what the result says, and never cost a run."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse

from fastsvm.jobs.report import html
from fastsvm.jobs.report.html import Axes, Html, Line, chart, duration, png, rounded, shown, table
from fastsvm.jobs.report.page import _memory, _read_speed, search_results
from fastsvm.jobs.runner import RunFolder, run
from fastsvm.jobs.training.job_file import Job

NAMES = ["cat", "<script>alert('dog')</script>", 'a "frog" & more']
ALONE = {"meta", "img", "br"}  # elements without an end


class Page(HTMLParser):
    """What is in a page; raises AssertionError where elements do not end in the order in which they begin."""

    def __init__(self, text):
        super().__init__()
        self.open, self.begun, self.attributes, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.begun.append(tag)
        self.attributes += [(tag, *one) for one in attributes]
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.begun.append(tag)
        self.attributes += [(tag, *one) for one in attributes]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, words):
        if self.open[-1:] != ["style"]:
            self.words.append(words)


def written(path, X, y, names=None):
    with h5py.File(path, "w") as file:
        if sparse.issparse(X):
            group = file.create_group("X")
            write_csr(group, X)
        else:
            file.create_dataset("X", data=X, chunks=(50, X.shape[1]))
        file["y"] = y
        if names is not None:
            file["y"].attrs["class_names"] = names
    return str(path)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("report"), np.random.default_rng(0)
    y = rng.integers(0, 3, 400)
    X = (rng.normal(size=(400, 12)) + np.eye(12)[y]).astype(np.float32)
    smooth = rng.normal(size=(400, 3, 8, 8)).cumsum(axis=3).cumsum(axis=2).reshape(400, 192) + y[:, None]
    thin = sparse.csr_matrix(np.where(X > 0.5, X, 0))
    return {
        "dense": written(folder / "dense.h5", X, y, NAMES),
        "images": written(folder / "images.h5", smooth.astype(np.float32), y, NAMES),
        "sparse": written(folder / "sparse.h5", thin, y),
        "targets": written(folder / "targets.h5", X, X @ rng.normal(size=12) + rng.normal(size=400)),
        "words": written(folder / "words.h5", X, np.array(["one", "two", "three"], object)[y]),
        "many": written(folder / "many.h5", X, rng.integers(0, 30, 400)),
    }


CASES = {
    "svc": ("dense", "svc", {"C": 2.0, "gamma": 0.1}),
    "svc in the primal": ("dense", "svc", {"solver": "primal", "loss": "squared_hinge", "gamma": 0.1}),
    "linear": ("dense", "linear", {"C": 0.1}),
    "sgd": ("dense", "sgd", {"max_iter": 5, "tol": None, "early_stopping": True}),
    "regression": ("targets", "linear-regressor", {}),
    "descent to targets": ("targets", "sgd-regressor", {"max_iter": 5, "tol": None}),
    "sparse": ("sparse", "linear", {}),
    "images": ("images", "sgd", {"max_iter": 5, "tol": None}),
    "words": ("words", "linear", {}),
    "many classes": ("many", "sgd", {"max_iter": 3, "tol": None}),
}


def reported(job, folder):
    """Return the page of a run, its text and its result."""
    result = run(job, folder)
    text = RunFolder(folder).report_file.read_text(encoding="utf-8")
    assert "report failed" not in [event["event"] for event in RunFolder(folder).events()]
    return Page(text), text, result


@pytest.mark.parametrize("holdout", [0.25, 0.0])
@pytest.mark.parametrize("case", CASES)
def test_a_page_stands_alone_and_says_what_the_result_says(case, holdout, files, tmp_path):
    file, kind, parameters = CASES[case]
    job = Job(files[file], kind=kind, parameters=parameters, holdout=holdout)
    page, text, _ = reported(job, tmp_path / "run")
    assert not re.search(r"https?://|url\(|@import", text)
    assert not {"script", "link", "iframe", "object"} & set(page.begun)
    for tag, name, value in page.attributes:
        assert name not in ("href", "srcset", "data") and not name.startswith("on")
        assert name != "src" or (tag == "img" and value.startswith("data:image/png;base64,"))
    assert {"nan", "inf", "None"}.isdisjoint(re.findall(r"[\w.]+", "".join(page.words)))
    said = {name: json.loads(value) for name, value in re.findall(r'<data id="(\w+)" value="([^"]+)">', text)}
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert said.keys() >= {"objective", "n_iter", "seconds", "passes", "run_seconds"}
    assert said == {name: stored[name] for name in said}
    assert ("accuracy" in said or "r2" in said) == bool(holdout)
    assert page.begun.count("svg") >= 1 + ("gap" in text and kind in ("svc", "linear"))
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def counts_of(text):
    """Return the numbers of the confusion matrix in a page."""
    body = re.search(r'class="confusion">.*?<tbody>(.*?)</tbody>', text, re.S)[1]
    return [[int(cell) for cell in re.findall(r"<td[^>]*>(\d+)</td>", line)] for line in body.split("</tr>")[:-1]]


def test_confusions_and_errors(files, tmp_path):
    job = Job(files["dense"], kind="linear", test=files["dense"])
    page, text, result = reported(job, tmp_path / "run")
    counts = np.array(counts_of(text))
    assert counts.shape == (3, 3) and counts.sum() == result["n_test"] == 400
    assert np.trace(counts) / 400 == pytest.approx(result["accuracy"])
    assert f"20 of {400 - np.trace(counts)} errors" in text
    assert "img" not in page.begun and "of dense.h5 correctly" in text


def test_names_are_escaped(files, tmp_path):
    page, text, _ = reported(Job(files["images"], kind="linear", holdout=0.3), tmp_path / "run")
    assert "<script" not in text and "&lt;script&gt;" in text
    assert NAMES[1] in page.words and NAMES[2] in page.words
    assert any(NAMES[1] in value for _, name, value in page.attributes if name == "alt")


def test_images_are_drawn(files, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    job = Job(files["images"], kind="sgd", parameters={"max_iter": 1, "tol": None}, holdout=0.5)
    page, _, _ = reported(job, tmp_path / "run")
    sources = [value for _, name, value in page.attributes if name == "src"]
    assert 0 < len(sources) <= 20
    for source in sources:
        pixels = image.imread(io.BytesIO(base64.b64decode(source.split(",")[1])))
        assert pixels.shape == (8, 8, 3)


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 3), (1, 1)])
def test_png(shape):
    image = pytest.importorskip("matplotlib.image")
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    found = image.imread(io.BytesIO(png(pixels)))
    np.testing.assert_array_equal((found * 255).round().astype(np.uint8), pixels)


def test_noise_with_as_many_columns_as_an_image_is_no_image(tmp_path):
    rng = np.random.default_rng(0)
    file = written(tmp_path / "noise.h5", rng.normal(size=(200, 64)), rng.integers(0, 2, 200))
    page, text, _ = reported(Job(file, kind="linear", holdout=0.5), tmp_path / "run")
    assert "img" not in page.begun and '<th scope="col">predicted</th>' in text


def test_no_report_if_none_is_wanted(files, tmp_path):
    run(Job(files["dense"], kind="linear", report=False), tmp_path / "run")
    assert not (tmp_path / "run" / "report.html").exists()


def test_a_report_that_fails_does_not_cost_the_run(files, tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fastsvm.jobs.runner.write_report", fails)
    result = run(Job(files["dense"], kind="linear"), tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    assert folder.result == result and folder.model_file.exists() and not folder.report_file.exists()
    assert folder.events()[-1]["event"] == "report failed" and "No space left" in folder.events()[-1]["error"]
    assert capsys.readouterr().err.count("cannot write the report") == 1


def test_interruptions_and_progress(files, tmp_path, monkeypatch):
    moment = "2026-01-02T03:04:{}.000+00:00"
    events = [
        {"time": moment.format(10), "event": "begin", "versions": {"numpy": "2.0"}},
        *(
            {"time": moment.format(20 + t), "event": "progress", "seconds": t, "peak_memory_mb": 9.0 + t}
            for t in range(9)
        ),
        {"time": moment.format(40), "event": "stopped", "signal": 15},
        {"time": "2026-01-02T04:00:00.000+00:00", "event": "resume", "checkpoint": 7, "versions": {"numpy": "2.1"}},
        {"event": "progress"},
        {"time": "2026-01-02T05:00:00.000+00:00", "event": "resume", "checkpoint": None, "versions": {"numpy": "2.1"}},
        {"time": "2026-01-02T05:10:00.000+00:00", "event": "end"},
    ]
    monkeypatch.setattr(RunFolder, "events", lambda self: events)
    folder = tmp_path / "run"
    run(Job(files["dense"], kind="linear"), folder)
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    versions = "numpy\u00a02.0", "numpy\u00a02.1"
    for words in ("SIGTERM", "2026-01-02 04:00:00 UTC", "the log ends here", "peak so far (MB)", *versions):
        assert any(words in found for found in page.words), words
    assert text.count(versions[1]) == 1
    assert any(" and 2 interruptions" in found for found in page.words)


def test_steps_that_an_interruption_lost_are_not_drawn():
    seconds = [1.0, 3.0, 5.0, 2.5, 4.0]  # the process was killed after 5 s, and the checkpoint was of 2 s
    events = [{"event": "progress", "seconds": t, "peak_memory_mb": 10.0 * t} for t in seconds]
    alone = [events[0], *events[3:]]
    assert _memory([*events[:3], {"event": "resume"}, *events[3:]]) == _memory(alone) != _memory(events[:3])


@pytest.mark.parametrize(
    ("values", "best", "hint"),
    [([1, 10, 100], 100, "larger"), ([1, 10, 100], 1, "smaller"), ([1, 10, 100], 10, None), ([1, 10], 10, None)],
)
def test_a_best_cell_at_the_edge_of_the_grid_is_told(values, best, hint):
    cells = [
        {"parameters": {"C": C, "kernel": "rbf"}, "mean_score": float(best == C), "std_score": 0.0} for C in values
    ]
    job = Job("rows.h5", grid={"C": values, "kernel": ["rbf"]})
    text = search_results(cells, job)
    assert (f"The best C, {best}, is at the edge of the grid: try {hint} ones, too." in text) == (hint is not None)


def test_read_speed_over_time():
    history = {"time": np.arange(5.0), "bytes_read": np.array([1, 2, 3, 1, 2]) * 10**6}
    page = Page(_read_speed(history))  # a resumed run counts bytes from 0
    assert "speed (MB/s)" in page.words and not any("Memory" in words for words in page.words)
    assert _read_speed({}) == ""


# --- pieces ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (0.1 + 0.2, "0.3"), (99999.7, "100,000"), (1.5e12, "1.5 × 10¹²"),
        (-2.5e-7, "−2.5 × 10⁻⁷"), (np.inf, "∞"), (np.nan, "not a number"), (0.99999, "1"), (9.99999e-5, "0.0001"),
    ],
)  # fmt: skip
def test_numbers_in_words(value, words):
    assert rounded(value) == words


def test_times_in_words():
    assert [duration(t) for t in (0.01234, 59.0, 61.4, 3600.0, 90061.0)] == [
        "0.0123 s", "59 s", "1 min 1 s", "1 h 0 min", "25 h 1 min",
    ]  # fmt: skip


def test_what_is_shown():
    values = [None, True, np.int64(-1234), [1, "<"], {"<": 2.0}, Html("<b>x</b>")]
    assert [shown(value) for value in values] == ["–", "yes", "−1,234", "1, &lt;", "&lt;: 2", "<b>x</b>"]


def test_numbers_of_a_column_are_aligned():
    text = table(("<name>", "value", "rows"), [("a", 10.25, 1), ("b", -1.5, 2000)])
    cells = re.findall(r"<t[dh]\b[^>]*?( class=number)?>([^<]*)<", text)
    assert [words for _, words in cells] == ["&lt;name&gt;", "value", "rows", "a", "10.25", "1", "b", "−1.50", "2,000"]
    assert [bool(number) for number, _ in cells] == [False, True, True] * 3


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "y", [[], [1.0], [3.0, 3.0], [0.0, 0.0], [-5.0, -5.0], [np.nan, 1.0, np.inf], [1e9, 2e9], [1e-9, 1.0], [-1.0, 1e-3]]
)
def test_charts_of_any_values(y, log):
    picture = chart([Line("<name>", np.arange(len(y)), np.array(y))], Axes("title", "x", "y", log=log), "note")
    drawn = np.isfinite(y) & ((np.array(y) > 0) | (not log))
    assert bool(picture) == bool(drawn.any())
    Page(picture)
    assert not re.search(r"nan|inf", picture)
    places = [tuple(map(float, place)) for place in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", picture)]
    assert all(0 <= across <= 480 and 0 <= down <= 270 for across, down in places)


def test_ticks_are_apart():
    for low, high in np.random.default_rng(0).normal(size=(50, 2)) * 10.0 ** np.arange(-8, 42, 1)[:, None]:
        picture = chart([Line("", np.arange(2), np.array([low, high]))], Axes("", "x", "y"))
        labels = re.findall(r'text-anchor="end">([^<]+)</text>', picture)[:-1]
        assert 2 <= len(labels) == len(set(labels)) <= 8


def test_the_style_has_both_schemes():
    names = re.findall(r"(--[a-z]+):", html.style().split("}")[0])
    dark = html.style().split("prefers-color-scheme: dark")[1].split("}")[0]
    assert names and all(f"{name}:" in dark for name in names)
