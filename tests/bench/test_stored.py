"""The tables of the pages are those of the runs that were kept."""

import json
import re
from pathlib import Path

import pytest

from bench.cases import AVX2
from bench.searches.grid import EACH_FIT, OURS
from bench.stored import kept, tables
from bench.stored.pages import PAGES, ROOT, filled
from bench.stored.pictures import PICTURES
from bench.stored.tables import TABLES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_has_the_tables_of_its_runs(path):
    text = path.read_text(encoding="utf-8")
    assert "<!-- table: " in text and filled(text) == text, "python -m bench.stored writes them anew"
    assert text.count("<!-- table: ") == text.count("\n<!-- end of table -->")


def test_every_table_is_on_a_page():
    texts = [path.read_text(encoding="utf-8") for path in PAGES]
    assert not [name for name in TABLES if not any(f"<!-- table: {name} -->" in text for text in texts)]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.path.name)
def test_a_picture_shows_the_newest_runs(picture):
    assert picture.shown() == picture.runs(), "python -m bench.stored draws it anew"
    assert picture.figure().axes


def test_no_run_names_a_folder_of_the_machine_that_measured():
    texts = {path.name: path.read_text(encoding="utf-8") for path in kept._RUNS.glob("*.json")}
    assert not {name: found for name, text in texts.items() if (found := re.findall(r'"(?:/|[A-Z]:\\\\)[^"]*"', text))}


def test_the_readme_has_the_seconds_of_the_runs():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    landmarks = kept.spots("vessels-75-1000000", "fastsvm")[2048].seconds
    assert f"1,000,000 × 75 bytes from a file, 2,048 landmarks, 2 GB: {landmarks:.0f} s" in text
    linear, descent = ({one.name: one for one in kept.ratios(suite)} for suite in ("linear", "sgd"))
    images = linear["cifar-10-20000-linear-C0.01"]
    ours, theirs = (one["arrival"]["seconds"] for one in (images.ours, images.peers["liblinear"]))
    assert f"10 classes, hinge: {ours:.1f} s; LIBLINEAR {theirs:.0f} s" in text
    ended, there = (
        tables._last(descent["cifar-10-sgd"].peers["sklearn"])["seconds"],
        tables._there(descent["cifar-10-sgd"]),
    )
    assert f"{there:.2f} s to where scikit-learn is after {ended:.0f} s" in text
    found = {one["competitor"]: one["seconds"] for one in kept.newest("search")["mnist"]}
    assert f"90 fits: {found[OURS]:.1f} s; `GridSearchCV` {found[EACH_FIT]:.0f} s" in text
    fresh = kept.newest("first_answers")["SVC, digits"]["empty_s"]
    assert f"has to compile: {fresh:.0f} s, once" in text
    took = {one.name: one.ours["median_s"] for one in kept.ratios("instructions")}
    most = max(seconds / took[name.removesuffix(AVX2)] for name, seconds in took.items())
    assert f"Without AVX-512, fits take up to {most:.1f} times" in text


def test_a_newer_run_replaces_what_an_older_one_found(monkeypatch, tmp_path):
    def written(day, *results):
        kind = {"broken": "failed", "slow": "timeout"}
        found = [{"competitor": name, "median_s": s, "status": kind.get(name, "ok")} for name, s in results]
        cases = [{"name": "a", "shape": [5, 2], "results": found}]
        text = json.dumps({"cases": cases, "options": {"timeout": 6.0}})
        Path(tmp_path, f"tables-{day}.json").write_text(text, encoding="utf-8")

    written("20260102", ("fastsvm", 2.0))
    written("20260101", ("fastsvm", 9.0), ("sklearnex", 8.0), ("slow", None), ("broken", 0.1))
    monkeypatch.setattr(kept, "_RUNS", tmp_path)
    kept._newest.cache_clear()
    (found,) = kept.ratios("tables")
    kept._newest.cache_clear()
    assert (found.name, found.shape, found.ratio) == ("a", (5, 2), 3.0), "the slow one was ended after 6 s"
