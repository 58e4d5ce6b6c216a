"""What a run has reached, in files that are whole or not there: versioned, checksummed, the last two kept.

A checkpoint is a tree of numbers, words, arrays and the NamedTuples of this package, which are the states of solvers.
It is stored as arrays in HDF5 and a skeleton in JSON, never pickled, and bound to what it is a checkpoint of.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from fastsvm.atomic_file import written_beside
from fastsvm.hdf5_output import hdf5_written

__all__ = ["Checkpoints", "DamagedCheckpoint", "Found", "check_bound"]

FORMAT = "fastsvm-checkpoint"
VERSION = 1
_KEPT = 2
_KIND = "$"  # in the skeleton, of what is no number or word


class DamagedCheckpoint(ValueError):
    """A file that holds no checkpoint, another version's, or one that is not what was written."""


class Found(NamedTuple):
    """A checkpoint that was read: its number, the tree, and why later ones were not used."""

    number: int
    tree: Any
    refused: list[str]


class Checkpoints:
    """The checkpoints of a run.

    Parameters
    ----------
    folder : Path
        Where they are.
    bound_to : dict
        Numbers and words of what they belong to, by name, for JSON. A checkpoint with others is refused.
    """

    def __init__(self, folder: Path, bound_to: dict[str, Any]) -> None:
        self.folder, self.bound_to = folder, json.loads(json.dumps(bound_to))

    def files(self) -> list[Path]:
        """Return the files, the last first."""
        return sorted(self.folder.glob("checkpoint-*.h5"), reverse=True)

    def save(self, tree: Any) -> Path:
        """Write a tree and remove all but the last two checkpoints.

        Raises
        ------
        OSError
            If it cannot be written; those that are there stay.
        """
        last = self.files()
        number = 1 + (_number(last[0]) if last else 0)
        path = self.folder / f"checkpoint-{number:08d}.h5"
        with written_beside(path) as part:
            write(part, tree, self.bound_to)
        for old in self.files()[_KEPT:]:
            old.unlink(missing_ok=True)
        return path

    def latest(self) -> Found | None:
        """Return the last checkpoint that can be used, None if there are none.

        Raises
        ------
        DamagedCheckpoint
            If there are some, and none can be used.
        ValueError
            If one was written for another job or other data.
        """
        refused = []
        for path in self.files():
            try:
                return Found(_number(path), read(path, self.bound_to), refused)
            except DamagedCheckpoint as error:
                refused.append(str(error))
        if refused:
            raise DamagedCheckpoint(" ".join(refused) + " Nothing was overwritten; begin anew in another folder.")
        return None


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("checkpoint-"))


def write(path: Path, tree: Any, bound_to: dict[str, Any]) -> None:
    """Write a tree to a file."""
    arrays: list[np.ndarray] = []
    skeleton = json.dumps({"tree": _skeleton(tree, arrays), "bound_to": bound_to})

    def fill(file: h5py.File) -> None:
        for k, array in enumerate(arrays):
            file.create_dataset(str(k), data=array)
        file.create_dataset("skeleton", data=np.frombuffer(skeleton.encode(), np.uint8))
        file.attrs["format"], file.attrs["version"] = FORMAT, VERSION
        file.attrs["checksum"] = _checksum(skeleton, arrays)

    with hdf5_written(path) as output:
        output.do(fill)


def read(path: Path, bound_to: dict[str, Any]) -> Any:
    """Return the tree in a file.

    Raises
    ------
    DamagedCheckpoint
        If the file is damaged or of another version.
    ValueError
        If it belongs to something else.
    """
    try:
        with h5py.File(path, "r") as file:
            _check_version(file, path)
            skeleton = bytes(file["skeleton"][:]).decode()
            arrays = [file[str(k)][()] for k in range(len(file) - 1)]
            checksum = file.attrs["checksum"]
    except DamagedCheckpoint:
        raise
    except Exception as error:  # of HDF5, which has one of any kind for a bit that was flipped
        raise DamagedCheckpoint(f"{path} is damaged or no checkpoint: {error}.") from error
    if checksum != _checksum(skeleton, arrays):
        raise DamagedCheckpoint(f"{path} is damaged: what it holds is not what was written.")
    words = json.loads(skeleton)
    check_bound(words["bound_to"], bound_to, path)
    return _tree(words["tree"], arrays, path)


def _check_version(file: h5py.File, path: Path) -> None:
    if file.attrs.get("format") != FORMAT:
        raise DamagedCheckpoint(f"{path} is an HDF5 file but no checkpoint.")
    if file.attrs.get("version") != VERSION:
        raise DamagedCheckpoint(
            f"{path} was written by another fastsvm, as version {file.attrs.get('version')} of the format; this one "
            f"reads {VERSION}."
        )


def check_bound(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    """Raise ValueError if what a file belongs to is not what it should belong to."""
    for name in wanted.keys() | found.keys():
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"{path} cannot be gone on with, because the {name} changed: it was {found.get(name)} and is "
                f"{wanted.get(name)}. Undo that, or begin anew in another folder."
            )


def _checksum(skeleton: str, arrays: list[np.ndarray]) -> str:
    digest = hashlib.blake2b(skeleton.encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.hexdigest()


def _skeleton(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Return a tree as JSON has it, and add its arrays to `arrays`."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind == "U":
            return {_KIND: "words", "dtype": tree.dtype.str, "values": tree.tolist()}
        arrays.append(tree)
        return {_KIND: "array", "number": len(arrays) - 1}
    if isinstance(tree, dict):
        pairs = [[_skeleton(key, arrays), _skeleton(value, arrays)] for key, value in tree.items()]
        return {_KIND: "dict", "pairs": pairs}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        kind = type(tree)
        values = {name: _skeleton(value, arrays) for name, value in zip(kind._fields, tree, strict=True)}
        return {_KIND: "record", "module": kind.__module__, "name": kind.__qualname__, "values": values}
    if isinstance(tree, (list, tuple)):
        return {_KIND: type(tree).__name__, "values": [_skeleton(value, arrays) for value in tree]}
    raise TypeError(f"{type(tree).__name__} cannot be stored in a checkpoint.")


def _tree(words: Any, arrays: list[np.ndarray], path: Path) -> Any:
    """Return what a skeleton and arrays stand for."""
    if not isinstance(words, dict):
        return words
    kind = words[_KIND]
    if kind == "array":
        return arrays[words["number"]]
    if kind == "words":
        return np.array(words["values"], dtype=words["dtype"])
    if kind == "dict":
        return {_tree(key, arrays, path): _tree(value, arrays, path) for key, value in words["pairs"]}
    if kind == "record":
        values = {name: _tree(value, arrays, path) for name, value in words["values"].items()}
        return _record(words["module"], words["name"], values, path)
    values = [_tree(value, arrays, path) for value in words["values"]]
    return tuple(values) if kind == "tuple" else values


def _record(module: str, name: str, values: dict[str, Any], path: Path) -> Any:
    """Return a NamedTuple of a module of this package that is in use: a file should not choose what is imported."""
    kind = getattr(sys.modules.get(module), name, None) if module.startswith("fastsvm.") else None
    if not (isinstance(kind, type) and issubclass(kind, tuple) and set(values) == set(getattr(kind, "_fields", ()))):
        raise DamagedCheckpoint(f"{path} holds a {module}.{name} that this fastsvm does not know.")
    return kind(**values)
