"""A format is added by one line of a table. Then conversion, recognition and the command line know it."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from fastsvm import open_hdf5
from fastsvm.cli import main
from fastsvm.formats import FORMATS, Format, convert, recognise
from fastsvm.formats.readers.stream import Header, Rows, Stream

MARK = b"ROWS"


def recognises(path):
    return path.is_file() and path.read_bytes()[: len(MARK)] == MARK


@contextmanager
def read(path, options):
    """Open rows of four bytes, the last of which is the label."""
    rows = np.frombuffer(path.read_bytes()[len(MARK) :], np.uint8).reshape(-1, 4)
    dtype = options.dtype or np.dtype(np.uint8)
    blocks = (Rows(rows[k : k + 2, :3].astype(dtype), rows[k : k + 2, 3].astype(np.int64)) for k in range(0, 5, 2))
    yield Stream(Header(3, dtype, np.dtype(np.int64), n_samples=len(rows)), blocks)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Return a file of a format that is registered."""
    monkeypatch.setitem(FORMATS, "rows", Format("rows of four bytes", frozenset({"dtype"}), recognises, read))
    path = tmp_path / "some.rows"
    path.write_bytes(MARK + bytes(range(20)))
    return path


def test_it_is_recognised_and_converted(path, tmp_path):
    assert recognise(path) == "rows"
    summary = convert(path, tmp_path / "rows.h5", shuffle=False, dtype="float32", class_names=["ant"])
    assert (summary.n_samples, summary.n_features, summary.n_classes) == (5, 3, 5)
    with open_hdf5(tmp_path / "rows.h5") as data:
        values = data.X.read(0, 5).values
        assert values.dtype == np.float32 and values.tolist() == [[k, k + 1, k + 2] for k in range(0, 20, 4)]
        assert data.y.tolist() == [3, 7, 11, 15, 19] and data.class_names == ["ant"]


@pytest.mark.parametrize("words", [[], ["--format", "rows"]])
def test_the_command_converts_it(words, path, tmp_path, capsys):
    assert main(["convert", str(path), str(tmp_path / "rows.h5"), "--json", *words]) == 0
    assert json.loads(capsys.readouterr().out)["n_samples"] == 5


def test_the_help_of_the_command_names_it(path, capsys):
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    help_ = " ".join(capsys.readouterr().out.split())
    assert "csv, rows (default: recognised" in help_
    assert "would merge values (formats: arrow, svmlight, csv, rows)" in help_


def test_options_of_other_formats_do_not_apply(path, tmp_path):
    with pytest.raises(ValueError, match=r"split does not apply to rows, only to cifar10, idx"):
        convert(path, tmp_path / "rows.h5", split="train")
    with pytest.raises(TypeError, match=r"no options \['splits'\]; it has split"):
        convert(path, tmp_path / "rows.h5", splits="train")
