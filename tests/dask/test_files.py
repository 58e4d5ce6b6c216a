"""Parquet and Zarr files that the workers read give the model of the rows in them."""

import builtins

import numpy as np
import pandas as pd
import pytest

import fastsvm
from fastsvm.dask import LinearSVC, predict, score

pytestmark = pytest.mark.dask


@pytest.fixture(scope="module")
def expected(digits):
    X, y = digits
    weight = np.arange(len(y)) % 3 + 0.5
    return X, y, weight, fastsvm.LinearSVC(C=0.05, tol=1e-4, random_state=0).fit(X, y, weight).objective_


def made(client):
    return LinearSVC(C=0.05, n_shards=2, tol=1e-3, random_state=0, client=client)


@pytest.fixture(scope="module")
def tables(expected, tmp_path_factory):
    X, y, weight, _ = expected
    folder = tmp_path_factory.mktemp("tables")
    frame = pd.DataFrame(X, columns=[f"pixel{k}" for k in range(64)]).assign(kind=y, sample_weight=weight)
    frame[:200].to_parquet(folder / "a.parquet", row_group_size=50)
    frame[200:].to_parquet(folder / "b.parquet")
    return [folder / "a.parquet", folder / "b.parquet"]


def test_parquet(client, expected, tables):
    model = made(client).fit(tables, y="kind")
    assert model.feature_names_in_.tolist() == [f"pixel{k}" for k in range(64)]
    assert model.objective_ == pytest.approx(expected[-1], rel=1.5e-3)
    with pytest.raises(ValueError, match=r"no column 'label' with the labels, but 'pixel0', .* and 58 more"):
        made(client).fit(tables, y="label")
    with pytest.raises(ValueError, match="no 'heft' with the weights"):
        made(client).fit(tables, y="kind", sample_weight="heft")
    with pytest.raises(ValueError, match=r"one format; found \.h5, \.parquet"):
        made(client).fit([tables[0], "rows.h5"])
    with pytest.raises(ValueError, match="name of a column or an array"):
        made(client).fit(tables, y=expected[1])


def test_zarr(client, expected, tmp_path):
    zarr = pytest.importorskip("zarr")
    X, y, weight, _ = expected
    for name, rows in (("a.zarr", slice(0, 120)), ("b.zarr", slice(120, 300))):
        group = zarr.open_group(tmp_path / name, mode="w")
        for key, values, chunks in (("X", X, (50, 40)), ("y", y, (70,)), ("sample_weight", weight, (300,))):
            group.create_array(key, data=values[rows], chunks=chunks)
    model = made(client).fit([tmp_path / "a.zarr", tmp_path / "b.zarr"])
    assert model.objective_ == pytest.approx(expected[-1], rel=1.5e-3)
    with pytest.raises(ValueError, match="no array 'kind' with the labels"):
        made(client).fit(tmp_path / "a.zarr", y="kind")


@pytest.mark.parametrize(
    ("suffix", "package", "command"), [("parquet", "pyarrow", "fastsvm.dask"), ("zarr", "zarr", "fastsvm.zarr")]
)
def test_the_package_that_reads_a_format_may_be_absent(monkeypatch, client, suffix, package, command):
    usual = builtins.__import__

    def absent(name, *given, **more):
        if name == package:
            raise ImportError(name)
        return usual(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(ImportError, match=rf"pip install 'fastsvm\[{command.split('.')[1]}\]'"):
        made(client).fit(f"rows.{suffix}")


def test_columns_of_one_frame_are_in_the_same_blocks(client, expected, tmp_path):
    """Dask would read fewer, larger partitions of the file for y alone than for X."""
    dd = pytest.importorskip("dask.dataframe")
    X, y, weight, objective = expected
    pixels = [f"pixel{k}" for k in range(64)]
    frame = pd.DataFrame(X, columns=pixels).assign(kind=y, heft=weight)
    for start in range(0, 300, 50):
        frame[start : start + 50].to_parquet(tmp_path / f"{start:03d}.parquet")
    stored = dd.read_parquet(tmp_path)
    model = made(client).fit(stored[pixels], stored.kind, stored.heft)
    assert model.objective_ == pytest.approx(objective, rel=1.5e-3)
    predicted = model.to_local().predict(frame[pixels])
    np.testing.assert_array_equal(predict(model, stored[pixels]).compute(), predicted)
    right = float(weight[predicted == y].sum() / weight.sum())
    assert score(model, stored[pixels], stored.kind, stored.heft) == pytest.approx(right, rel=1e-12)
    some = pixels[10:13]
    few = made(client).fit(stored[some], stored.kind)
    np.testing.assert_array_equal(predict(few, stored[some]).compute(), few.to_local().predict(frame[some]))
    with pytest.raises(ValueError, match=r"Pass columns of a dataframe as they are, without \.values"):
        made(client).fit(stored[pixels].values, stored.kind.values)
