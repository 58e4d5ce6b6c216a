"""Files that are complete or do not exist."""

import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from fastsvm.files import atomic_file
from fastsvm.files.atomic_file import LOCK, atomic_write, check_output, has_locks, name_beside, scratch_folder


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with atomic_write(path) as part:
        part.write_text("new")
        assert path.read_text() == "old" and part != path
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_after_an_error_the_old_one_is_there_and_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no"), atomic_write(path) as part:
        part.write_text("new")
        raise RuntimeError("no")
    with pytest.raises(RuntimeError, match="no"), scratch_folder(path) as room:
        (room / "new").write_text("new")
        raise RuntimeError("no")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "日" * 85, "x" * 248])
def test_names_as_long_as_the_file_system_takes(tmp_path, name):
    path = tmp_path / name
    with atomic_write(path) as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == [name]
    with scratch_folder(path) as room:
        assert len(os.fsencode(room.name)) <= 255


def test_names_that_are_cut_differ_where_the_names_do(tmp_path):
    names = {name_beside(tmp_path / ("x" * 251 + end), ".part").name for end in (".csv", ".hdf", ".h5", "")}
    assert len(names) == 4
    assert name_beside(tmp_path / "out.csv", ".part").name == "out.csv.part"


def test_what_cannot_be_written_is_said_beforehand(tmp_path):
    (tmp_path / "file").touch()
    check_output(tmp_path / "other", tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="no folder"):
        check_output(tmp_path / "nowhere" / "file")
    with pytest.raises(IsADirectoryError, match="name a file"):
        check_output(tmp_path)
    with pytest.raises(ValueError, match="is read by this command"):
        check_output(tmp_path / "file", tmp_path / "file")


@pytest.mark.skipif(not has_locks(), reason="there are no locks")
@pytest.mark.parametrize("name", ["rows.h5", "x" * 254, "[a]*.h5"])
def test_what_killed_processes_left_is_removed_and_nothing_else(tmp_path, name):
    path = tmp_path / name
    left = name_beside(path, ".0a1b2c3d.part")
    left.mkdir()
    (left / "data.h5").write_text("half")
    others = [tmp_path / "rows.h5.mine.part", tmp_path / "other.h5.0a1b2c3d.part", tmp_path / "a.h5.0a1b2c3d.part"]
    for other in others:
        other.mkdir()
    with scratch_folder(path) as first, scratch_folder(path) as second:
        assert first.is_dir() and second.is_dir() and not left.exists()
    assert set(tmp_path.iterdir()) == set(others)
    name_beside(path, ".00000000.part").mkdir()  # as one left that was killed while it wrote a file
    with atomic_write(path) as part:
        part.touch()
    assert set(tmp_path.iterdir()) == {path, *others}


class Windows:
    """Stands for `msvcrt`: an open file is locked until it is closed."""

    LK_NBLCK = 2

    def __init__(self):
        self.taken = {}

    def locking(self, number, mode, n_bytes):
        holder = self.taken.get(os.fstat(number).st_ino)
        if holder is not None and holder != number and is_open(holder, os.fstat(number).st_ino):
            raise PermissionError(13, "in use")
        self.taken[os.fstat(number).st_ino] = number


def is_open(number, inode):
    try:
        return os.fstat(number).st_ino == inode
    except OSError:
        return False


def test_what_killed_processes_left_is_removed_on_windows(tmp_path, monkeypatch):
    monkeypatch.setattr("fastsvm.files.atomic_file.windows", Windows())
    monkeypatch.setattr("fastsvm.files.atomic_file.fcntl", None)
    left = tmp_path / "rows.h5.0a1b2c3d.part"
    left.mkdir()
    (left / LOCK).touch()
    with scratch_folder(tmp_path / "rows.h5") as first, scratch_folder(tmp_path / "rows.h5") as second:
        assert (first / LOCK).exists() and (second / LOCK).exists() and not left.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not has_locks(), reason="there are no locks")
def test_nothing_is_removed_where_there_are_no_locks(tmp_path, monkeypatch):
    monkeypatch.setattr("fastsvm.files.atomic_file.is_taken", lambda *_, **__: False)
    left = tmp_path / "rows.h5.0a1b2c3d.part"
    left.mkdir()
    with scratch_folder(tmp_path / "rows.h5") as room:
        assert room.is_dir()
    assert list(tmp_path.iterdir()) == [left]


def test_an_interrupted_check_of_a_folder_leaves_nothing(tmp_path, monkeypatch):
    touch = Path.touch

    def interrupted(self, **given):
        touch(self, **given)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "touch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check_output(tmp_path / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_signal_after_the_lock_and_before_the_work_leaves_nothing(tmp_path, monkeypatch):
    locked = atomic_file.locked_folder

    @contextmanager
    def interrupted(folder):
        with locked(folder):
            raise KeyboardInterrupt
        yield

    monkeypatch.setattr(atomic_file, "locked_folder", interrupted)
    with pytest.raises(KeyboardInterrupt), atomic_write(tmp_path / "rows"):
        pass
    assert list(tmp_path.iterdir()) == []
