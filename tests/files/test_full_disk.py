"""Full disks, limits of file sizes and errors of a disk are reported as such, and nothing is lost."""

import errno
import json
import os
import signal
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

import fastsvm
from fastsvm.cli import main
from fastsvm.files.array_file import read_arrays
from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.jobs.runner import RunFolder
from fastsvm.jobs.training.train import save_surely, written_surely

# `written(kind, folder)` writes each kind of file. `sizes` are the sizes of the file system in bytes.
PROGRAM = """
import errno, json, os, sys, warnings
from pathlib import Path
import numpy as np
import fastsvm
from fastsvm.formats import convert
from fastsvm.jobs.training.checkpoints import Checkpoints
from fastsvm.jobs.predict import PredictionFile

rng = np.random.default_rng(0)
source, out = map(Path, sys.argv[1:])
X, y = rng.normal(size=(1000, 30)), rng.integers(0, 3, 1000)
np.savez(source / "rows.npz", X=X, y=y)
(source / "rows.svm").write_text("".join(f"{k % 2} 1:{k} {2 + k % 50}:0.5\\n" for k in range(2500)))
model = fastsvm.LinearSVC()
model.coef_, model.intercept_, model.classes_ = rng.normal(size=(3, 9000)), np.zeros(3), np.arange(3)
model.n_features_in_ = 9000

def predictions():
    with PredictionFile.opened(out / "predictions", np.dtype(np.int64), {}) as file:
        for k in range(3):
            file.append(np.arange(1000), rng.normal(size=(1000, 5)), np.zeros(1))
            file.save()

KINDS = {
    "dense": lambda: convert(source / "rows.npz", out / "dense", memory=100_000),
    "sparse": lambda: convert(source / "rows.svm", out / "sparse"),
    "model": lambda: fastsvm.save(model, out / "model"),
    "checkpoint": lambda: Checkpoints(out, {}).save({"a": X, "b": [y, "words"]}),
    "predictions": predictions,
}

def tried(kind):
    try:
        KINDS[kind]()
        return 0
    except OSError as error:
        return error.errno

def left():
    return sorted(path.name for path in out.iterdir())
"""

LIMITED = (
    PROGRAM
    + """
import resource
found = {}
for kind in KINDS:
    for limit in (0, 50, 1000, 5000, 20_000, 50_000, 100_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        found.setdefault(kind, []).append(tried(kind))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    found[kind].append(tried(kind))
print(json.dumps({"found": found, "left": left()}))
"""
)

# As `unshare -rm` does, but in a process that has imported the package.
MOUNT = """
import ctypes, os, subprocess, sys
NEW_NAMESPACES, NOT_SHARED = 0x10020000, 0x44000  # of users and of mounts
libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()

def done(code):
    if code:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

done(libc.unshare(NEW_NAMESPACES))
for name, words in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(words)
done(libc.mount(b"none", b"/", None, NOT_SHARED, None))

def mount(folder, options):
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], check=True)
"""

SMALL = (
    MOUNT
    + 'mount(sys.argv[2], "size=4000k")'
    + PROGRAM
    + """
found, sizes = {}, (16, 32, 64, 128, 256)
for kind in KINDS:
    for size in (*sizes, 4000):
        mount(out, f"remount,size={size}k")
        found.setdefault(kind, []).append(tried(kind))
    (out / kind).unlink(missing_ok=True)
    for path in out.glob("checkpoint-*"):
        path.unlink()
print(json.dumps({"found": found, "left": left()}))
"""
)


def small_file_systems_are_allowed():
    try:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


on_a_small_file_system = pytest.mark.skipif(
    not small_file_systems_are_allowed(), reason="no file system may be mounted here (unshare -rm)"
)


def found_by(forks, code, tmp_path):
    """Return the output of a program. It must succeed and print nothing to standard error."""
    folders = tmp_path / "source", tmp_path / "out"
    for folder in folders:
        folder.mkdir()
    process = forks.start(*folders, code=code)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    return json.loads(out)


def check_each(found, wanted):
    """Each kind of file raises an error until there is room, and is then written."""
    for kind, numbers in found.items():
        first = numbers.index(0) if 0 in numbers else len(numbers)
        assert first > 0 and set(numbers[:first]) == {wanted}, (kind, numbers)
        assert set(numbers[first:]) == {0}, (kind, numbers)


@pytest.mark.skipif(os.name == "nt", reason="there are no limits of file sizes")
def test_a_limit_of_file_sizes(tmp_path, forks):
    told = found_by(forks, LIMITED, tmp_path)
    check_each(told["found"], errno.EFBIG)
    assert [name for name in told["left"] if not name.startswith("checkpoint")] == [
        "dense",
        "model",
        "predictions",
        "sparse",
    ]
    for path in (tmp_path / "out").iterdir():
        if path.name == "model":
            fastsvm.load(path)
            continue
        if path.suffix == ".fastsvm":
            read_arrays(path)
            continue
        with h5py.File(path) as file:
            file.visititems(lambda name, node: node[()] if isinstance(node, h5py.Dataset) else None)


@on_a_small_file_system
def test_a_small_file_system(tmp_path, forks):
    told = found_by(forks, SMALL, tmp_path)
    check_each(told["found"], errno.ENOSPC)
    assert told["left"] == []


class Disk:
    """An unbuffered file that fails after a number of bytes."""

    def __init__(self, file, most, error):
        self._file, self._most, self._error = file, most, error

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def write(self, data):
        if self._file.tell() + len(data) > self._most:
            raise OSError(self._error, os.strerror(self._error))
        return self._file.write(data)


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT, errno.ENOSPC, errno.EFBIG])
@pytest.mark.parametrize("most", [0, 100, 3000, 90_000])
def test_errors_of_a_disk_are_raised_as_they_are(tmp_path, monkeypatch, number, most):
    raw = open
    monkeypatch.setattr("builtins.open", lambda *words, **more: Disk(raw(*words, **more), most, number))
    with pytest.raises(OSError, match=os.strerror(number)) as caught, hdf5_written(tmp_path / "file") as do:
        do(lambda file: file.create_dataset("X", data=np.arange(20_000.0), chunks=(1000,)).shape)
        do(lambda file: file.attrs.update(words="some"))
    assert caught.value.errno == number


def test_the_file_is_that_of_hdf5(tmp_path):
    """Rows are written, read back while the file is open, and found after it is closed."""
    X = np.random.default_rng(0).normal(size=(5000, 7))

    def fill(file):
        rows = file.create_dataset("X", (0, 7), "f4", maxshape=(None, 7), chunks=(100, 7))
        for start in range(0, 5000, 123):
            rows.resize(min(5000, start + 123), 0)
            rows[start:] = X[start : start + 123]
        file.flush()
        np.testing.assert_array_equal(rows[:], X.astype(np.float32))
        file["words"] = ["one", "two"]

    with hdf5_written(tmp_path / "file", rdcc_nbytes=0) as do:
        do(fill)
    with h5py.File(tmp_path / "file") as file:
        np.testing.assert_array_equal(file["X"][:], X.astype(np.float32))
        assert file["words"].asstr()[:].tolist() == ["one", "two"]


@pytest.mark.skipif(os.name == "nt", reason="signals are those of POSIX")
def test_a_signal_while_hdf5_writes_leaves_a_file_that_can_be_closed(tmp_path, heard):
    """The signal arrives during a write of HDF5. Its exception is raised in the caller of HDF5."""

    class Cut:
        def __array__(self, *_, **__):
            os.kill(os.getpid(), signal.SIGINT)
            return np.arange(50_000.0)

    with pytest.raises(KeyboardInterrupt), hdf5_written(tmp_path / "file") as do:
        for _ in range(100):
            do(lambda file: file.create_dataset("X", data=np.asarray(Cut())).shape)
    with h5py.File(tmp_path / "file") as file:
        assert file["X"].shape == (50_000,)


# --- in commands -----------------------------------------------------------------------------------------


def test_what_took_long_waits_for_room(choose, capsys):
    tries = []

    def write():
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    choose(jobs={"wait_s": 0.0})
    written_surely(write, "file")
    assert len(tries) == 3
    assert capsys.readouterr().err.count("cannot write file: No space left on device. Make room") == 1


def test_a_model_without_room_is_kept_elsewhere(tmp_path, monkeypatch, choose):
    model = fastsvm.LinearSVC().fit(np.eye(4), [0, 0, 1, 1])
    choose(jobs={"full_disk_s": 0.0})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real, path = fastsvm.save, tmp_path / "full" / "model.h5"

    def save(model, to):
        if Path(to) == path:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(model, to)

    monkeypatch.setattr("fastsvm.jobs.training.train.save", save)
    with pytest.raises(OSError, match="not lost: it was saved to ") as caught:
        save_surely(model, path)
    assert caught.value.errno == errno.ENOSPC
    (kept,) = tmp_path.glob("fastsvm-model-*.fastsvm")
    assert str(kept) in str(caught.value)
    np.testing.assert_array_equal(fastsvm.load(kept).coef_, model.coef_)


def test_the_log_after_a_disk_that_was_full_in_a_line(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path)
    folder.log("begin")
    with folder.log_file.open("a") as file:
        file.write('{"event": "pro')
    with monkeypatch.context() as patch:
        patch.setattr(folder, "log_file", tmp_path / "nowhere" / "log")
        folder.log("lost")
    folder.log("end")
    assert [event["event"] for event in folder.events()] == ["begin", "end"]
    assert folder.events()[-1]["events_lost_before"] == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_run_that_nobody_hears(tmp_path, forks):
    """Standard error is a file on a full disk. A message that cannot be printed does not end the run."""
    with h5py.File(tmp_path / "data.h5", "w") as file:
        rng = np.random.default_rng(0)
        file["X"], file["y"] = rng.normal(size=(200, 4)), rng.integers(0, 2, 200)
    words = "train", tmp_path / "data.h5", "-o", tmp_path / "model.h5", "--model", "sgd", "--max_iter", "1"
    process = forks.start(*words, "--tol", "1e-9", err="/dev/full")  # it warns, because it does not converge
    assert process.communicate()[0] and (tmp_path / "model.h5").exists()


RUN = (
    MOUNT
    + """
mount(sys.argv[2], "size=200k")
from pathlib import Path
import fastsvm.jobs.runner as checkpointer
from fastsvm.cli import main
from fastsvm.tuning import changed, tuned

within = tuned(changed({"jobs": {"save_share": 1e9}}))
within.__enter__()
out = Path(sys.argv[2])
ballast = out / "ballast"
save, saved = checkpointer.JobCheckpointer.save, []

def fill():
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass

def counted(self, tree):
    saved.append(save(self, tree))
    if len(saved) == 2:
        fill()
    if len(saved) == 6:
        ballast.unlink()
    return saved[-1]

checkpointer.JobCheckpointer.save = counted
code = main(["run", sys.argv[1], "--folder", str(out / "run")])
print("".join("yn"[not one] for one in saved[:8]), file=sys.stderr)
import shutil
shutil.copy(out / "run" / "model.fastsvm", sys.argv[3])
sys.exit(code)
"""
)


@on_a_small_file_system
def test_a_run_goes_on_while_its_disk_is_full(tmp_path, forks):
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        y = rng.integers(0, 3, 500)
        file["X"], file["y"] = rng.normal(size=(500, 60)) + np.eye(60)[y], y
    (tmp_path / "job.toml").write_text(
        f'[data]\ntrain = "{tmp_path / "data.h5"}"\n[model]\nkind = "sgd"\nmax_iter = 30\ntol = 1e-30\n'
        '[checkpoint]\nevery = "0.0001s"\n[output]\nreport = false\n'
    )
    (tmp_path / "disk").mkdir()
    process = forks.start(tmp_path / "job.toml", tmp_path / "disk", tmp_path / "model", code=RUN)
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "yynnnnyy" in err and "The run continues and tries again later." in err
    assert "checkpoints are written again" in err
    assert main(["run", str(tmp_path / "job.toml"), "--folder", str(tmp_path / "run")]) == 0
    found, wanted = fastsvm.load(tmp_path / "model"), fastsvm.load(tmp_path / "run" / "model.fastsvm")
    np.testing.assert_array_equal(found.coef_, wanted.coef_)
