"""Models and data sets that were damaged or forged are refused by name, or read; nothing hangs, crashes or guesses."""

import hashlib
import io
import json
import zipfile

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

import fastsvm
from fastsvm import SVC, LinearOneClassSVM, LinearSVC, LinearSVR, NuSVR, OneClassSVM, SGDClassifier, SGDRegressor
from fastsvm.files.array_file import read_arrays, write_arrays

X, Y = load_iris(return_X_y=True)
MODELS = {
    "kernel": SVC(class_weight={0: 2.0}),
    "kernel of CSR rows": SVC(kernel="poly"),
    "precomputed": SVC(kernel="precomputed"),
    "one class": OneClassSVM(nu=0.1),
    "share of a tube": NuSVR(),
    "linear": LinearSVC(standardize=True, random_state=0),
    "linear of two classes": LinearSVC(random_state=0),
    "regression": LinearSVR(random_state=0),
    "linear of one class": LinearOneClassSVM(random_state=0),
    "descent": SGDClassifier(standardize=True, random_state=0, max_iter=5, tol=None),
    "descent of numbers": SGDRegressor(random_state=0, max_iter=5, tol=None),
}


@pytest.fixture(scope="module")
def fitted():
    """Return fitted models with the rows that they predict."""
    found = {}
    for name, model in MODELS.items():
        rows = {"kernel of CSR rows": sparse.csr_matrix(X), "precomputed": X @ X.T}.get(name, X)
        labels = (Y > 0).astype(int) if "two classes" in name else Y
        found[name] = model.fit(rows, labels), rows
    return found


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.model"


def refused(path, *words):
    with pytest.raises(ValueError) as caught:
        fastsvm.load(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


# --- the file itself -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_models_are_read(name, fitted, path):
    model, rows = fitted[name]
    fastsvm.save(model, path)
    again = fastsvm.load(path)
    np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    assert again.get_params() == model.get_params()


def test_the_same_model_is_the_same_bytes_which_numpy_reads_too(fitted, path):
    model, _ = fitted["kernel"]
    fastsvm.save(model, path)
    content = path.read_bytes()
    fastsvm.save(model, path)
    assert path.read_bytes() == content
    with np.load(path) as archive:  # without pickle, which is NumPy's default
        np.testing.assert_array_equal(archive["dual_coef_"], model.dual_coef_)
        assert json.loads(archive["header.json"])["version"] == 2


def test_every_byte_counts(fitted, path):
    model, _ = fitted["linear of two classes"]
    fastsvm.save(model, path)
    content = path.read_bytes()
    for place in range(0, len(content), 37):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        refused(path)
    for length in range(0, len(content), 101):
        path.write_bytes(content[:length])
        refused(path)
    path.write_bytes(content + b"\0")
    refused(path, "checksum")


def sealed(path, parts, method=zipfile.ZIP_STORED, edit=lambda content: content):
    """Write an archive whose checksum is right, whatever else is wrong."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.comment = b"sha256 " + b"0" * 64
        for name, part in parts.items():
            archive.writestr(zipfile.ZipInfo(name), part, method)
    whole = edit(content.getvalue())[:-64]
    path.write_bytes(whole + hashlib.sha256(whole).hexdigest().encode())


def as_npy(array, **changed):
    """Return an array as a .npy file, with parts of its header changed."""
    content = io.BytesIO()
    np.lib.format.write_array(content, array)
    whole = content.getvalue()
    for old, new in changed.values():
        assert old in whole
        whole = whole.replace(old, new.ljust(len(old)))
    return whole


def test_forged_archives_are_refused_before_memory_is_asked_for(path):
    header = json.dumps({"format": "fastsvm-model", "version": 2}).encode()
    zeros = np.zeros(1000)
    sealed(path, {"header.json": header, "a.npy": as_npy(zeros)}, zipfile.ZIP_DEFLATED)
    refused(path, "compressed")
    sealed(path, {"a.npy": as_npy(zeros), "header.json": header})
    refused(path, "not a model file")
    sealed(path, {"header.json": header, "a.npy": as_npy(zeros, shape=(b"(1000,), }", b"(1000000000000,), }"))})
    refused(path, "array a")
    sealed(path, {"header.json": header, "a.npy": as_npy(zeros, shape=(b"(1000,)", b"(-1,-8,)"))})
    refused(path, "array a")
    for array in (np.array([{}]), np.zeros(3, "f8,f8"), np.zeros(3, np.clongdouble), np.zeros(3, "M8[s]")):
        sealed(path, {"header.json": header, "a.npy": as_npy(array)})
        refused(path, "array a")
    sealed(path, {"header.json": header, "a.npy": as_npy(np.array(["a"]), word=(b"a\0\0\0", b"\0\0\0\x7f"))})
    refused(path, "not characters")
    sealed(path, {"header.json": b"[" * 100_000, "a.npy": as_npy(zeros)})
    refused(path)
    sealed(path, {"header.json": b"[]"})
    refused(path, "must be a JSON object")

    def claim(content):  # that the part in the archive is larger than the archive
        place = content.rindex(b"PK\1\2") + 20
        return content[:place] + (1 << 31).to_bytes(4, "little") * 2 + content[place + 8 :]

    sealed(path, {"header.json": header, "a.npy": as_npy(zeros)}, edit=claim)
    refused(path, "claim")


def test_a_newer_version_and_other_archives(fitted, path):
    fastsvm.save(fitted["kernel"][0], path)
    header, arrays = read_arrays(path)
    write_arrays(path, json.dumps(header | {"version": 99}), arrays)
    refused(path, "format 99", "Install")
    write_arrays(path, json.dumps({"format": "other"}), arrays)
    refused(path, "not a fastsvm model")
    with open(path, "wb") as file:
        np.savez(file, X=X)
    refused(path)


# --- what is in it ---------------------------------------------------------------------------------------


def put(name, change):
    """Return a forgery that changes an array."""
    return lambda header, arrays: arrays.__setitem__(name, change(arrays[name]))


def tell(part, name, value):
    """Return a forgery that changes an entry of the header."""
    return lambda header, arrays: header[part].__setitem__(name, value)


def shorter(array):
    return array[..., :-1]


FORGERIES = {
    "kernel": {
        "fewer coefficients": put("dual_coef_", shorter),
        "fewer rows of coefficients": put("dual_coef_", lambda a: a[:-1]),
        "fewer support vectors": put("support_vectors_", lambda a: a[:-1]),
        "narrower support vectors": put("support_vectors_", shorter),
        "counts of fewer": put("n_support_", lambda a: a - [0, 0, 1]),
        "a negative count": put("n_support_", lambda a: a * [-1, 3, 1]),
        "a row that is not there": put("support_", lambda a: a + 150),
        "a negative row": put("support_", lambda a: a - 150),
        "fewer offsets": put("intercept_", shorter),
        "an offset that is not finite": put("intercept_", lambda a: a * np.nan),
        "coefficients as words": put("dual_coef_", lambda a: a.astype(str)),
        "coefficients as float32": put("dual_coef_", lambda a: a.astype(np.float32)),
        "classes in another order": put("classes_", lambda a: a[::-1]),
        "a class twice": put("classes_", lambda a: a * 0),
        "one class": put("classes_", lambda a: a[:1]),
        "no classes": lambda header, arrays: arrays.pop("classes_"),
        "no features": tell("attributes", "n_features_in_", 0),
        "other features": tell("attributes", "n_features_in_", 3),
        "features as a word": tell("attributes", "n_features_in_", "4"),
        "a gamma as a word": tell("attributes", "_gamma", "much"),
        "a gamma that is not finite": tell("attributes", "_gamma", float("inf")),
        "a gamma below 0": tell("attributes", "_gamma", -0.5),
        "a centre of other features": lambda header, arrays: arrays.update(_centre=np.zeros(3)),
        "a negative C": tell("parameters", "C", -1),
        "a kernel of no name": tell("parameters", "kernel", "cubic"),
        "a kernel of a list": tell("parameters", "kernel", ["rbf"]),
        "a degree beyond all": tell("parameters", "degree", 10**30),
        "memory": tell("parameters", "memory", "9" * 400 + "GB"),
        "a seed": tell("parameters", "random_state", "dice"),
        "an unknown parameter": tell("parameters", "colour", "red"),
        "weights of classes": tell("parameters", "class_weight", [[0, "much"]]),
        "an attribute that is a method": tell("attributes", "predict", 1),
        "an attribute of the class": tell("attributes", "__class__", "SVC"),
        "an attribute that is computed": lambda header, arrays: arrays.__setitem__("coef_", np.eye(4)),
        "an attribute of lists": tell("attributes", "passes_", [[1]]),
        "a word for a bool": tell("attributes", "converged_", "yes"),
        "an estimator of no name": lambda header, arrays: header.__setitem__("estimator", "SVR"),
        "an estimator of a list": lambda header, arrays: header.__setitem__("estimator", []),
        "another estimator": lambda header, arrays: header.__setitem__("estimator", "LinearSVC"),
        "no parameters": lambda header, arrays: header.pop("parameters"),
        "a ragged history": put("history_.time", lambda a: a[:0]),
    },
    "kernel of CSR rows": {
        "indptr that falls": put("support_vectors_.indptr", lambda a: np.r_[a[0], a[2], a[1], a[3:]]),
        "indptr far beyond": put("support_vectors_.indptr", lambda a: np.r_[a[0], [2**31 - 1] * (len(a) - 2), a[-1]]),
        "indptr below 0": put("support_vectors_.indptr", lambda a: np.r_[a[0], [-(2**31)] * (len(a) - 2), a[-1]]),
        "indptr with a jump that overflows": put(
            "support_vectors_.indptr",
            lambda a: np.r_[0, 2**63 - 1, -(2**63), [-1] * (len(a) - 4), a[-1]].astype(np.int64),
        ),
        "a column too many": put("support_vectors_.indices", lambda a: a + 1),
        "a column below 0": put("support_vectors_.indices", lambda a: a - 1),
        "fewer values": put("support_vectors_.data", shorter),
        "columns as floats": put("support_vectors_.indices", lambda a: a.astype(float)),
        "fewer rows": put("support_vectors_.indptr", shorter),
        "values that are not finite": put("support_vectors_.data", lambda a: a * np.inf),
    },
    "precomputed": {"a column that is not there": put("support_", lambda a: a + 1)},
    "linear": {
        "fewer weights": put("coef_", shorter),
        "weights of fewer classes": put("coef_", lambda a: a[:-1]),
        "no offsets": lambda header, arrays: arrays.pop("intercept_"),
        "a scale of 0": put("_scale", lambda a: a * 0),
        "no scale": lambda header, arrays: arrays.pop("_scale"),
    },
    "linear of two classes": {"weights of both": put("coef_", lambda a: np.vstack([a, a]))},
    "regression": {"weights of a class": put("coef_", lambda a: a[None])},
    "descent": {"fewer offsets": put("intercept_", shorter)},
    "descent of numbers": {"weights that are not finite": put("coef_", lambda a: a * np.nan)},
}


@pytest.mark.parametrize(("name", "forgery"), [(name, words) for name in FORGERIES for words in FORGERIES[name]])
def test_forged_content_is_refused(name, forgery, fitted, path):
    fastsvm.save(fitted[name][0], path)
    header, arrays = read_arrays(path)
    FORGERIES[name][forgery](header, arrays)
    write_arrays(path, json.dumps(header), arrays)
    refused(path)


def test_what_load_would_refuse_is_not_saved(fitted, path):
    model = SVC().fit(X, Y).set_params(C=-1)
    with pytest.raises(ValueError, match=r"cannot be saved: .*'C'"):
        fastsvm.save(model, path)
    assert not path.exists()


LABELS = [["ä", "😀", "z\ud800"], [False, True, True], [-1.0, 0.0, 9e9], [0, 1, 2**62]]


@pytest.mark.parametrize("labels", LABELS)
def test_labels_of_all_kinds(labels, path):
    y = np.array(labels)[Y]
    for given in (y, y.astype(object)) if y.dtype.kind == "U" else (y,):
        model = SVC().fit(X, given)
        fastsvm.save(model, path)
        again = fastsvm.load(path)
        assert again.classes_.dtype == model.classes_.dtype
        assert again.predict(X).tolist() == model.predict(X).tolist()


# --- at random -------------------------------------------------------------------------------------------
