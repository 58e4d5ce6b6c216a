"""Files that are whole or not there."""

import os

import pytest

from fastsvm.atomic_file import check_output, name_beside, room_beside, written_beside


def test_a_file_appears_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with written_beside(path) as part:
        part.write_text("new")
        assert path.read_text() == "old" and part.parent == tmp_path
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["file"]


def test_after_an_error_the_old_one_is_there_and_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no"), written_beside(path) as part:
        part.write_text("new")
        raise RuntimeError("no")
    with pytest.raises(RuntimeError, match="no"), room_beside(path) as room:
        (room / "new").write_text("new")
        raise RuntimeError("no")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "日" * 85, "x" * 248])
def test_names_as_long_as_the_file_system_takes(tmp_path, name):
    path = tmp_path / name
    with written_beside(path) as part:
        part.write_text("new")
    assert os.listdir(tmp_path) == [name]
    with room_beside(path) as room:
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
