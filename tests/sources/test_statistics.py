import h5py
import numpy as np
import pytest
from csr_group import write_csr
from scipy import sparse

from fastsvm.sources import ScaledSource, as_source, feature_statistics

N, D = 37, 5
VALUES = np.random.default_rng(0).integers(0, 4, (N, D)).astype(float)
VALUES[:, 1] += 1
VALUES[[3, 4, 20, N - 1]] = 0  # empty rows


def levels(count, shape=(200, 80), seed=0):
    """Return bytes below `count`. All of them occur in the rows of the sample."""
    return np.random.default_rng(seed).integers(0, count, shape, dtype=np.uint8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_weights_are_repetitions(make):
    weight = np.random.default_rng(1).integers(0, 4, N)
    weight[:8] = 0
    found = feature_statistics(as_source(make(VALUES)), weight.astype(float))
    wanted = feature_statistics(as_source(make(np.repeat(VALUES, weight, axis=0))))
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-13)
    np.testing.assert_allclose(found.feature_variance, wanted.feature_variance, rtol=1e-13)
    assert found.variance == pytest.approx(wanted.variance, rel=1e-13)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_a_large_mean_does_not_cost_the_variance_its_digits(make, choose):
    choose(storage={"resident_rows": 50})
    X = np.random.default_rng(2).normal([1e6, -1e7, 0], size=(300, 3))
    wanted = (X - X.mean(axis=0)).var(axis=0)
    np.testing.assert_allclose(feature_statistics(as_source(make(X))).feature_variance, wanted, rtol=1e-7)


@pytest.mark.parametrize("n", [10, 107, 300, 1100])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "CSR"])
def test_constant_features_do_not_vary_whatever_the_weights(make, n):
    weight = np.random.default_rng(n).random(n)
    weight[::3] = 0
    X = np.repeat([[3.7, -1e-8, 255.0, 1e8]], n, axis=0)
    X[::3] = 0  # rows of weight 0 do not count
    assert not feature_statistics(as_source(make(X)), weight).varying(n).any()


@pytest.mark.parametrize("n", [2, 107, 394, 499, 4096, 5000])
def test_constant_bytes_do_not_vary(n):
    X = np.tile(np.arange(256, dtype=np.uint8), (n, 1))
    assert not feature_statistics(as_source(X)).varying(n).any()


def test_one_byte_that_differs_is_seen():
    X = np.full((4000, 3), 255, np.uint8)
    X[1234, 1] = 254
    found = feature_statistics(as_source(X))
    np.testing.assert_array_equal(found.varying(len(X)), [False, True, False])
    np.testing.assert_allclose(found.feature_variance[1], X[:, 1].astype(float).var(), rtol=1e-12)


def test_the_centre_of_whole_numbers_is_whole():
    centre = feature_statistics(as_source(VALUES.astype(np.uint8))).centre
    np.testing.assert_array_equal(centre, np.rint(centre))


@pytest.mark.parametrize(
    ("kind", "value"),
    [(kind, (np.nan, np.inf, -np.inf)[i % 3])
     for i, kind in enumerate(["float16", "float32", "float64", "CSR", "file", "CSR file", "scaled", "subset"])],
)  # fmt: skip
def test_what_is_not_finite_is_named(kind, value, tmp_path, choose):
    choose(storage={"resident_rows": 8})
    X = VALUES.astype(kind if kind.startswith("float") else np.float32)
    X[29, 3] = value
    with h5py.File(tmp_path / "bad.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(4, D))
        write_csr(file.create_group("S"), sparse.csr_array(X.astype(np.float32)))
        source = {
            "CSR": lambda: as_source(sparse.csr_array(X)),
            "file": lambda: as_source(file["X"]),
            "CSR file": lambda: as_source(file["S"]),
            "scaled": lambda: ScaledSource(as_source(X), None, 1.0),
            "subset": lambda: as_source(file["X"]).take(np.arange(N)),
        }.get(kind, lambda: as_source(X))()
        name = "NaN" if np.isnan(value) else "infinity"
        with pytest.raises(ValueError, match=f"{name}. The first is at row 29, column 3"):
            feature_statistics(source)


def test_numbers_whose_squares_overflow_are_refused():
    X = VALUES.copy()
    X[2, 2] = 1e200
    with pytest.raises(ValueError, match="too large"):
        feature_statistics(as_source(X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("scale", "offset"), [(1 / 255, 0.0), (2 / 255, -1.0), (1.0, -3.0), (100.0, 1e3)])
def test_statistics_of_bytes_tell_those_of_the_values(scale, offset, weighted):
    B = levels(200, (151, 90), seed=5)  # of an odd number of rows the median is one of them
    weight = np.random.default_rng(6).uniform(0, 2, 151) if weighted else None
    found = feature_statistics(as_source(B), weight).affine(scale, offset)
    wanted = feature_statistics(as_source(offset + scale * B), weight)
    for name in ("mean", "feature_variance", "variance", "centre", "centred_sq_norm", "usual_sq_norm"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-12, err_msg=name)
    if offset == 0:
        assert found.sq_norm == pytest.approx(wanted.sq_norm, rel=1e-12)
    else:
        longest = scale * np.sqrt((B.astype(float) ** 2).sum(axis=1).max()) + abs(offset) * 90**0.5
        assert wanted.sq_norm <= found.sq_norm <= longest**2 * (1 + 1e-12)
