"""Checkpoints: what was written is what is read, or it is refused."""

import json
from typing import NamedTuple

import numpy as np
import pytest

from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.files.storable import storable, storable_class, stored_name
from fastsvm.jobs.training.checkpoints import Checkpoints, DamagedCheckpoint, read, write
from fastsvm.solvers.kernel_dual.decomposition import DecompositionMemory
from fastsvm.solvers.kernel_dual.problem import KernelDualState
from fastsvm.solvers.outer_loop import StopReason

BOUND = {"job": "abc", "training data": {"bytes": 10, "shape": [3, 4]}}


def tree():
    rng = np.random.default_rng(0)
    return {
        "state": KernelDualState(rng.normal(size=5), rng.normal(size=5).astype(np.float32), np.empty(0, np.int64)),
        "memory": DecompositionMemory(np.inf, 0.5, 3, 0, 7, True, None),
        "words": np.array(["cat", "dog"]),
        "records": [(1, 2.5, float("nan")), (2, -np.inf, None)],
        3: {"big": 2**100, "text": "ä", "flag": False},
        "reason": StopReason.CONVERGED,
        "empty": np.empty((0, 4), np.uint8),
        "number": np.float64(1 / 3),
    }


def assert_same(found, wanted):
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_array_equal(found, wanted)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_equal(found, str(wanted) if isinstance(wanted, str) else wanted)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "checkpoint-00000001.fastsvm"
    write(path, tree(), BOUND)
    return path


def test_a_tree_comes_back(path):
    assert_same(read(path, BOUND), tree())


def test_what_cannot_be_stored_is_refused(tmp_path):
    with pytest.raises(TypeError, match="object cannot be stored"):
        write(tmp_path / "x.h5", {"x": object()}, BOUND)


def test_the_last_two_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, BOUND)
    assert checkpoints.latest() is None
    for k in range(5):
        checkpoints.save({"k": k})
    assert [file.stem for file in checkpoints.files()] == ["checkpoint-00000005", "checkpoint-00000004"]
    assert checkpoints.latest().tree == {"k": 4}
    assert sorted(file.stem for file in tmp_path.iterdir()) == ["checkpoint-00000004", "checkpoint-00000005"]


def truncated(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def flipped(path, place):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    path.write_bytes(bytes(content))


def changed(path, change):
    """Change the header and the arrays of a file, whose checksum is right again."""
    header, arrays = read_arrays(path)
    change(header, arrays)
    path.unlink()
    write_arrays(path, json.dumps(header), arrays)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
    "truncated to a tenth": lambda path: truncated(path, 0.1),
    "truncated to a half": lambda path: truncated(path, 0.5),
    "truncated a little": lambda path: truncated(path, 0.99),
    "of another version": lambda path: changed(path, lambda header, _: header.update(version=99)),
    "of another format": lambda path: changed(path, lambda header, _: header.update(format="fastsvm-model")),
    "lacking an array": lambda path: changed(path, lambda _, arrays: arrays.pop("0")),
    "with words changed": lambda path: path.write_bytes(path.read_bytes().replace(b"cat", b"cow")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_and_the_one_before_it_used(damage, tmp_path):
    checkpoints = Checkpoints(tmp_path, BOUND)
    checkpoints.save({"array": np.arange(2000.0), "words": np.array(["cat"])})
    last = checkpoints.save({"array": np.arange(2000.0) + 1, "words": np.array(["cat"])})
    DAMAGE[damage](last)
    content = last.read_bytes()
    with pytest.raises(DamagedCheckpoint, match=last.name):
        read(last, BOUND)
    found = checkpoints.latest()
    assert found.number == 1 and found.tree["array"][0] == 0 and last.name in found.refused[0]
    assert last.read_bytes() == content
    checkpoints.files()[1].unlink()
    with pytest.raises(DamagedCheckpoint, match="Nothing was overwritten"):
        checkpoints.latest()


@pytest.mark.parametrize("place", np.linspace(0, 0.999, 60))
def test_a_bit_flipped_anywhere_is_refused(place, path):
    flipped(path, place)
    with pytest.raises(DamagedCheckpoint):
        read(path, BOUND)


@pytest.mark.parametrize("other", [{"job": "abd"}, {"training data": {"bytes": 11, "shape": [3, 4]}}, {"more": 1}])
def test_a_checkpoint_of_something_else_is_refused(other, path):
    with pytest.raises(ValueError, match=r"because the (job|training data|more) changed") as error:
        read(path, BOUND | other)
    assert not isinstance(error.value, DamagedCheckpoint)


@pytest.mark.parametrize("name", ["posix.stat_result", "memory plan", "", None, ["kernel dual state"]])
def test_only_storable_classes_are_made(name, tmp_path):
    path = tmp_path / "x.fastsvm"
    write(path, KernelDualState(np.zeros(1), np.zeros(1), np.zeros(1)), BOUND)

    def rename(header, arrays):
        assert header["tree"]["name"] == "kernel dual state"
        header["tree"]["name"] = name

    changed(path, rename)
    with pytest.raises(DamagedCheckpoint, match="does not know"):
        read(path, BOUND)


@pytest.mark.parametrize(("field", "is_read"), [("waited", True), ("aim", False)])
def test_a_field_that_an_older_version_did_not_store_has_its_default(field, is_read, tmp_path):
    path, memory = tmp_path / "x.fastsvm", DecompositionMemory(0.5, 1.0, 2, 3, 4, True, None)
    write(path, memory._replace(waited=1), BOUND)
    changed(path, lambda header, arrays: header["tree"]["values"].pop(field))
    if is_read:
        assert read(path, BOUND) == memory
    else:
        with pytest.raises(DamagedCheckpoint, match="does not know"):
            read(path, BOUND)


def test_a_class_without_a_name_is_not_stored(tmp_path):
    class Anonymous(NamedTuple):
        number: int

    with pytest.raises(TypeError, match=r"Anonymous cannot be stored in a checkpoint: decorate it with `storable`"):
        write(tmp_path / "x.fastsvm", Anonymous(1), BOUND)
    with pytest.raises(ValueError, match="Anonymous cannot be stored as 'row cache'"):
        storable("row cache")(Anonymous)
    assert (
        stored_name(KernelDualState) == "kernel dual state" and storable_class("kernel dual state") is KernelDualState
    )
