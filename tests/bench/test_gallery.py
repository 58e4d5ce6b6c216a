"""The gallery draws what it says, on small data."""

import importlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from bench.gallery import NAMES
from bench.gallery.__main__ import Entry, main, page
from bench.gallery.shared.style import STYLE
from bench.workers.memory_curve import MemoryCurve

ROOT = Path(__file__).parents[2]


class Balance(HTMLParser):
    """Counts tags that are open, and collects links and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.found = [], []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src", "id")]
        self.open += [tag] * (tag not in ("meta", "img"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_all_pictures_are_drawn_and_listed(tmp_path, monkeypatch):
    monkeypatch.setitem(STYLE, "savefig.dpi", 20)  # nobody looks at them
    main(["--quick", "--out", str(tmp_path)])
    assert sorted(path.stem for path in tmp_path.glob("*.png")) == sorted(NAMES)
    shown = Balance()
    shown.feed((tmp_path / "index.html").read_text(encoding="utf-8"))
    assert shown.open == []
    assert [value for value in shown.found if value.endswith(".png")] == [f"{name}.png" for name in NAMES]
    assert all(name in shown.found and f"#{name}" in shown.found for name in NAMES)


def test_each_file_that_draws_is_listed():
    sources = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "bench" / "gallery").glob("*.py")}
    files = [name for name, source in sources.items() if "\ndef draw(" in source]
    assert sorted(files) == sorted(NAMES)
    titles = [importlib.import_module(f"bench.gallery.{name}").TITLE for name in NAMES]
    assert len(set(titles)) == len(titles)


def test_the_page_quotes_what_is_shown():
    shown = page([Entry("one", "a < b", "first\n\nsecond & last", "if a <= b:\n    pass", 1.5)], quick=True)
    for part in ("<h2>a &lt; b</h2>", "<p>first</p>\n<p>second &amp; last</p>", "if a &lt;= b:\n    pass", "/one.py"):
        assert part in shown
    assert "--quick" in shown and "--quick" not in page([], quick=False)


def test_an_unknown_picture_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["sunset", "--out", str(tmp_path)])
    told = capsys.readouterr().err
    assert "sunset" in told and "cifar_losses" in told


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system tells the peak only, which may not grow")
def test_a_curve_of_memory_rises_and_falls():
    with MemoryCurve(every_s=0.001) as curve:
        block = bytearray(80_000_000)
        del block
    times, added = zip(*curve.points, strict=True)
    assert curve.falls and times[0] == pytest.approx(0, abs=0.1) and list(times) == sorted(times)
    assert added[0] == pytest.approx(0, abs=1) and added[-1] < 40


def test_a_system_that_tells_the_peak_only(monkeypatch):
    monkeypatch.setattr("bench.workers.memory_curve._STATUS", Path("/no/such/file"))
    with MemoryCurve() as curve:
        pass
    assert not curve.falls and all(added >= 0 for _, added in curve.points)
