"""Checkpoints: what was written is what is read, or it is refused."""

import json

import h5py
import numpy as np
import pytest

from fastsvm.jobs.checkpoint import Checkpoints, DamagedCheckpoint, read, write
from fastsvm.solvers.decomposition import Memory, State
from fastsvm.solvers.drive import StopReason

BOUND = {"job": "abc", "training data": {"bytes": 10, "shape": [3, 4]}}


def tree():
    rng = np.random.default_rng(0)
    return {
        "state": State(rng.normal(size=5), rng.normal(size=5).astype(np.float32), np.empty(0, np.int64)),
        "memory": Memory(np.inf, 0.5, 3, 0, 7, True, None),
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
    path = tmp_path / "checkpoint-00000001.h5"
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
    assert [file.name for file in checkpoints.files()] == ["checkpoint-00000005.h5", "checkpoint-00000004.h5"]
    assert checkpoints.latest().tree == {"k": 4}
    assert sorted(file.name for file in tmp_path.iterdir()) == ["checkpoint-00000004.h5", "checkpoint-00000005.h5"]


def truncated(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def flipped(path, place):
    content = bytearray(path.read_bytes())
    content[int(len(content) * place)] ^= 0x10
    path.write_bytes(bytes(content))


def of_another_version(path):
    with h5py.File(path, "r+") as file:
        file.attrs["version"] = 99


def of_another_format(path):
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros(3)


def lacking_an_array(path):
    with h5py.File(path, "r+") as file:
        del file["0"]


def with_an_array_changed(path):
    with h5py.File(path, "r+") as file:
        file["0"][0] += 1


def with_words_changed(path):
    with h5py.File(path, "r+") as file:
        words = file["skeleton"][:]
        del file["skeleton"]
        file["skeleton"] = np.frombuffer(words.tobytes().replace(b"cat", b"cow"), np.uint8)


DAMAGE = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("hello"),
    "truncated to a tenth": lambda path: truncated(path, 0.1),
    "truncated to a half": lambda path: truncated(path, 0.5),
    "truncated a little": lambda path: truncated(path, 0.99),
    "of another version": of_another_version,
    "of another format": of_another_format,
    "lacking an array": lacking_an_array,
    "with an array changed": with_an_array_changed,
    "with words changed": with_words_changed,
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
def test_a_bit_flipped_anywhere_is_refused_or_harmless(place, path):
    flipped(path, place)
    try:
        found = read(path, BOUND)
    except DamagedCheckpoint:
        return
    assert_same(found, tree())  # the bit was in bytes that hold nothing


@pytest.mark.parametrize("changed", [{"job": "abd"}, {"training data": {"bytes": 11, "shape": [3, 4]}}, {"more": 1}])
def test_a_checkpoint_of_something_else_is_refused(changed, path):
    with pytest.raises(ValueError, match=r"because the (job|training data|more) changed") as error:
        read(path, BOUND | changed)
    assert not isinstance(error.value, DamagedCheckpoint)


def test_no_classes_but_those_of_the_package_are_made(tmp_path):
    path = tmp_path / "x.h5"
    write(path, {"state": State(np.zeros(1), np.zeros(1), np.zeros(1))}, BOUND)
    with h5py.File(path, "r") as file:
        words = json.loads(bytes(file["skeleton"][:]))
    record = words["tree"]["pairs"][0][1]
    assert record["module"] == "fastsvm.solvers.decomposition"
    others = ("os", "stat_result"), ("fastsvm.solvers.decomposition", "Nothing"), ("fastsvm.budget", "Plan")
    for module, name in others:
        record["module"], record["name"] = module, name
        _rewritten(path, json.dumps(words))
        with pytest.raises(DamagedCheckpoint, match="does not know"):
            read(path, BOUND)


def _rewritten(path, skeleton):
    from fastsvm.jobs.checkpoint import _checksum

    with h5py.File(path, "r+") as file:
        del file["skeleton"]
        file["skeleton"] = np.frombuffer(skeleton.encode(), np.uint8)
        file.attrs["checksum"] = _checksum(skeleton, [file[str(k)][()] for k in range(3)])
