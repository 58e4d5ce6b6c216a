"""The gallery draws what it says, on small data."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")


def test_all_pictures_are_drawn_and_listed(tmp_path):
    words = [sys.executable, "-m", "bench.gallery", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures == ["cifar_losses.png", "penalty_and_margin.png"]
    assert all(name in page for name in pictures)


def test_an_unknown_picture_is_refused(tmp_path):
    words = [sys.executable, "-m", "bench.gallery", "sunset", "--out", str(tmp_path)]
    done = subprocess.run(words, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    assert done.returncode == 2
    assert "sunset" in done.stderr and "cifar_losses" in done.stderr
