"""Predictions of files that were converted in random order, or whose rows have identifiers."""

import csv

import h5py
import numpy as np
import pytest
from predicted_files import BLOCK, write

import fastsvm
from fastsvm.formats import convert
from fastsvm.jobs.predict import PredictionFile, parts_of, predict

N = 7 * BLOCK + 13
NAMES = ["ant", "bee", "Käfer"]


@pytest.fixture(scope="module")
def rows():
    """Return identifiers, samples and labels of a table."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, N)
    X = (rng.normal(size=(N, 3)) + 2 * np.eye(3)[kind]).astype(np.float32)
    return [f"={k}x" if k % 50 == 0 else f"row {k}" for k in rng.permutation(N)], X, np.array(NAMES)[kind]


def write_table(path, ids, X, y):
    with path.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["name", "a", "b", "c", "kind"])
        lines.writerows([id, *map(str, x), label] for id, x, label in zip(ids, X.tolist(), y.tolist(), strict=True))
    return path


@pytest.fixture(scope="module")
def table(rows, tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("table") / "rows.csv", *rows)


@pytest.fixture(scope="module", params=["words", "numbers"])
def model(request, rows, table, tmp_path_factory):
    """Return the file of a classifier or of a regression, and its table."""
    folder, (ids, X, y) = tmp_path_factory.mktemp("model"), rows
    if request.param == "words":
        found = fastsvm.LinearSVC().fit(X, y)
    else:
        found = fastsvm.LinearSVR().fit(X, X[:, 0] + X[:, 1])
        table = write_table(folder / "rows.csv", ids, X, X[:, 0] + X[:, 1])
    fastsvm.save(found, folder / "model")
    return folder / "model", table


@pytest.fixture(autouse=True)
def small_pieces(small_blocks, choose):
    choose(jobs={"block_rows": 64})


def columns_of(path):
    """Return the columns of a prediction file by name."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as file:
            header, *lines = csv.reader(file)
        return dict(zip(header, zip(*lines, strict=True), strict=True))
    with h5py.File(path) as file:
        return {
            name: (part.asstr()[:] if h5py.check_string_dtype(part.dtype) else part[:]).tolist()
            for name, part in file.items()
        }


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_predictions_join_the_table_row_by_row(ending, rows, model, tmp_path):
    model, table = model
    convert(table, tmp_path / "rows.h5", id="name", seed=3)
    output = tmp_path / f"out.{ending}"
    predict(model, tmp_path / "rows.h5", output)
    found, wanted = columns_of(output), fastsvm.load(model)
    assert next(iter(found)) == ("id" if ending == "csv" else "decision")
    ids = [id[1:] if id.startswith("'=") else id for id in found["id"]]
    assert ids == rows[0]
    labels = wanted.predict(rows[1])
    if labels.dtype.kind == "U":
        assert list(found["prediction"]) == labels.tolist()
        assert np.mean(np.array(found["prediction"]) == rows[2]) > 0.8
    else:
        np.testing.assert_allclose(np.array(found["prediction"], float), labels, rtol=1e-6, atol=1e-6)
    assert not any(path.exists() for path in parts_of(output))


@pytest.mark.parametrize("ending", ["csv", "h5"])
def test_the_order_of_the_conversion_does_not_matter(ending, model, tmp_path):
    contents, (model, table) = [], model
    for shuffle, seed in ((True, 0), (True, 1), (False, 0)):
        convert(table, tmp_path / "rows.h5", id=0, shuffle=shuffle, seed=seed)
        predict(model, tmp_path / "rows.h5", tmp_path / f"out.{ending}")
        contents.append(columns_of(tmp_path / f"out.{ending}"))
    assert contents[0] == contents[1] == contents[2]


def test_without_identifiers_the_lines_are_those_of_the_source(table, rows, tmp_path):
    _, X, y = rows
    fastsvm.save(fastsvm.LinearSVC().fit(X, y), tmp_path / "model")
    (tmp_path / "rows.csv").write_text("\n".join(line.split(",", 1)[1] for line in table.read_text().splitlines()))
    for shuffle in (True, False):
        convert(tmp_path / "rows.csv", tmp_path / "rows.h5", shuffle=shuffle)
        predict(tmp_path / "model", tmp_path / "rows.h5", tmp_path / f"{shuffle}.csv")
    assert (tmp_path / "True.csv").read_bytes() == (tmp_path / "False.csv").read_bytes()


def test_numbers_that_are_no_permutation_give_an_order_too(rows, tmp_path):
    _, X, y = rows
    fastsvm.save(fastsvm.LinearSVC().fit(X, y), tmp_path / "model")
    numbers = np.arange(N)[::-1] // 2 * 10
    write(tmp_path / "rows.h5", X=X, source_row=numbers)
    predict(tmp_path / "model", tmp_path / "rows.h5", tmp_path / "out.csv")
    wanted = fastsvm.load(tmp_path / "model").predict(X)[np.argsort(numbers, kind="stable")]
    assert list(columns_of(tmp_path / "out.csv")["prediction"]) == wanted.tolist()
    write(tmp_path / "rows.h5", X=X, source_row=numbers / 4)
    with pytest.raises(ValueError, match=r"source_row in .* must hold whole numbers"):
        predict(tmp_path / "model", tmp_path / "rows.h5", tmp_path / "out.csv")


class Killed(BaseException):
    pass


@pytest.mark.parametrize(
    ("moment", "ending"), [("prediction", "csv"), ("sorting", "csv"), ("sorting", "h5"), ("the end", "h5")]
)
def test_a_killed_prediction_resumes_to_the_same_file(moment, ending, table, rows, tmp_path, monkeypatch, capsys):
    _, X, y = rows
    fastsvm.save(fastsvm.LinearSVC().fit(X, y), tmp_path / "model")
    convert(table, tmp_path / "rows.h5", id="name")
    whole, output = tmp_path / f"whole.{ending}", tmp_path / "out" / f"out.{ending}"
    output.parent.mkdir()
    report = predict(tmp_path / "model", tmp_path / "rows.h5", whole)

    def stop(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "prediction":
            append, calls = PredictionFile.append, []

            def some(self, *block):
                append(self, *block)
                calls.append(1)
                if len(calls) == 3:
                    raise Killed

            patch.setattr(PredictionFile, "append", some)
        elif moment == "sorting":
            patch.setattr("fastsvm.jobs.predict._blocks", stop)
        else:
            patch.setattr("fastsvm.files.atomic_file.os.replace", stop)
        with pytest.raises(Killed):
            predict(tmp_path / "model", tmp_path / "rows.h5", output)
    assert not output.exists()
    again = predict(tmp_path / "model", tmp_path / "rows.h5", output)
    assert (moment == "the end") or "resumed after" in capsys.readouterr().err
    assert columns_of(output) == columns_of(whole) and again["n_samples"] == report["n_samples"] == N
    assert [path.name for path in output.parent.iterdir()] == [output.name]
