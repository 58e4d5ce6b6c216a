"""Data files that are damaged or refer to other files."""

import h5py
import numpy as np
import pytest
from sklearn.datasets import load_iris

import fastsvm
from fastsvm import SVC, open_hdf5
from fastsvm.jobs.models import describe

X, Y = load_iris(return_X_y=True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.model"


def refused(path, *words):
    with pytest.raises(ValueError) as caught:
        fastsvm.load(path)
    assert str(path) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def swap(file, name, value):
    del file[name]
    file[name] = value


def other_file(path):
    other = path.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file["X"] = X
    return other


def external(path, file):
    file.create_dataset("X", (2, 2), "f8", external=[(str(path.with_name("raw")), 0, 32)])


def virtual(path, file):
    layout = h5py.VirtualLayout((150, 4), "f8")
    layout[:] = h5py.VirtualSource(str(other_file(path)), "X", (150, 4))
    file.create_virtual_dataset("X", layout)


def indirect(path, file):
    file["elsewhere"] = h5py.ExternalLink(str(other_file(path)), "/")
    file["X"] = h5py.SoftLink("/elsewhere/X")


def without_filter(path, file):
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((2, 2))
    settings.set_filter(32001, h5py.h5z.FLAG_OPTIONAL, (1,))
    h5py.h5d.create(file.id, b"X", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple((4, 2)), settings)


ELSEWHERE = {
    "a link": (lambda path, file: file.__setitem__("X", h5py.ExternalLink(str(other_file(path)), "X")), "other.h5"),
    "a link through a link": (indirect, "other.h5"),
    "a link to itself": (lambda path, file: file.__setitem__("X", h5py.SoftLink("/X")), ""),
    "external storage": (external, "raw"),
    "a virtual dataset": (virtual, "other.h5"),
    "a filter that is not there": (without_filter, "32001"),
    "rows that were never written": (
        lambda path, file: file.create_dataset("X", (1 << 40, 4), "f8", chunks=(1024, 4)),
        "stored",
    ),
}


@pytest.mark.parametrize("how", ELSEWHERE)
def test_rows_that_are_not_in_the_file_are_named(how, path):
    with h5py.File(path, "w") as file:
        ELSEWHERE[how][0](path, file)
    for read in (open_hdf5, describe):
        with pytest.raises(ValueError) as caught:
            read(path)
        assert str(path) in str(caught.value) and ELSEWHERE[how][1] in str(caught.value)


def test_a_soft_link_within_the_file_is_followed(path):
    with h5py.File(path, "w") as file:
        file["deep/rows"] = X
        file["X"] = h5py.SoftLink("deep/rows")
        file["y"] = Y
    with open_hdf5(path) as data:
        assert data.shape == X.shape


def test_a_virtual_dataset_that_the_user_passes_is_read(path):
    with h5py.File(path, "w") as file:
        virtual(path, file)
    with h5py.File(path) as file:
        assert len(SVC().fit(file["X"], Y).predict(file["X"])) == 150


@pytest.mark.parametrize("labels", [np.zeros(150, "f8,f8"), np.array([b"a"] * 150, h5py.opaque_dtype("V3"))])
def test_labels_that_are_none_are_refused(labels, path):
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, labels
    with pytest.raises(ValueError, match=r"some\.model .*not numbers or strings"):
        open_hdf5(path)


def text_of_words(path):
    with h5py.File(path, "w") as file:
        file["X"], file["y"] = X, np.array(["ash", "beech", "oak"], object)[Y]
    return bytearray(path.read_bytes())


def test_a_lost_block_of_strings_is_found_before_hdf5_walks_for_ever(path):
    content = text_of_words(path)
    place = content.index(b"GCOL") + 400
    content[place : place + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.model is damaged: at byte \d+ its strings"):
        open_hdf5(path)


def test_a_string_longer_than_the_file_takes_no_memory(path):
    content = text_of_words(path)
    with h5py.File(path) as file:
        place = file["y"].id.get_offset()
    content[place : place + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.model is damaged: it has a string of 4294967295 bytes"):
        open_hdf5(path)
