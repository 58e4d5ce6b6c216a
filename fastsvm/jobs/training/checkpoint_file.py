"""What a run has reached, in files that are whole or not there: versioned, checksummed, the last two kept.

A checkpoint is a tree of numbers, words, arrays and the NamedTuples of this package, which are the states of solvers.
It is stored as arrays and a skeleton in JSON, never pickled, and bound to what it is a checkpoint of.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.files.atomic_file import atomic_write
from fastsvm.files.storable import storable_class, stored_name
from fastsvm.jobs.training.checkpoint_version_1 import is_version_1, read_version_1, record_of_version_1

__all__ = ["Checkpoints", "DamagedCheckpoint", "Found", "check_bound"]

FORMAT = "fastsvm-checkpoint"
VERSION = 2
_KEPT = 2
_SUFFIXES = ".fastsvm", ".h5"  # of this version and the one before
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
        found = (path for suffix in _SUFFIXES for path in self.folder.glob(f"checkpoint-*{suffix}"))
        return sorted(found, key=_number, reverse=True)

    def save(self, tree: Any) -> Path:
        """Write a tree and remove all but the last two checkpoints.

        Raises
        ------
        OSError
            If it cannot be written; those that are there stay.
        """
        last = self.files()
        number = 1 + (_number(last[0]) if last else 0)
        path = self.folder / f"checkpoint-{number:08d}{_SUFFIXES[0]}"
        with atomic_write(path) as part:
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
    arrays: dict[str, np.ndarray] = {}
    header = {"format": FORMAT, "version": VERSION, "tree": _skeleton(tree, arrays), "bound_to": bound_to}
    write_arrays(path, json.dumps(header), arrays)


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
        header, arrays, records = _content(path)
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"{path} is damaged or no checkpoint: {error}") from error
    if header.get("format") != FORMAT:
        raise DamagedCheckpoint(f"{path} holds arrays but is no checkpoint.")
    if header.get("version") not in (1, VERSION):
        raise DamagedCheckpoint(
            f"{path} was written by another fastsvm, as version {header.get('version')} of the format; this one reads "
            f"up to {VERSION}."
        )
    check_bound(header["bound_to"], bound_to, path)
    try:
        return _tree(header["tree"], arrays, records)
    except Exception as error:  # a forged skeleton may have anything anywhere
        raise DamagedCheckpoint(f"{path} holds what this fastsvm does not know: {error}.") from error


def _content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray], Callable]:
    """Return the header of a file, its arrays, and what makes the records of its version."""
    if is_version_1(path):
        return *read_version_1(path), record_of_version_1
    return *read_arrays(path), _record


def check_bound(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    """Raise ValueError if what a file belongs to is not what it should belong to."""
    for name in wanted.keys() | found.keys():
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"{path} cannot be gone on with, because the {name} changed: it was {found.get(name)} and is "
                f"{wanted.get(name)}. Undo that, or begin anew in another folder."
            )


def _skeleton(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a tree as JSON has it, and add its arrays to `arrays`."""
    if tree is None or isinstance(tree, (bool, int, float, str)):
        return tree
    if isinstance(tree, np.generic):
        return tree.item()
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind == "U":
            return {_KIND: "words", "dtype": tree.dtype.str, "values": tree.tolist()}
        name = str(len(arrays))
        arrays[name] = tree
        return {_KIND: "array", "name": name}
    if isinstance(tree, dict):
        pairs = [[_skeleton(key, arrays), _skeleton(value, arrays)] for key, value in tree.items()]
        return {_KIND: "dict", "pairs": pairs}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        values = {name: _skeleton(value, arrays) for name, value in tree._asdict().items()}
        return {_KIND: "record", "name": stored_name(type(tree)), "values": values}
    if isinstance(tree, (list, tuple)):
        return {_KIND: type(tree).__name__, "values": [_skeleton(value, arrays) for value in tree]}
    raise TypeError(f"{type(tree).__name__} cannot be stored in a checkpoint.")


def _tree(words: Any, arrays: dict[str, np.ndarray], record: Callable[[dict, dict], Any]) -> Any:
    """Return what a skeleton and arrays stand for; `record` makes a NamedTuple of its words and values."""
    if not isinstance(words, dict):
        return words
    kind = words[_KIND]
    if kind == "array":
        return arrays[words["name"]]
    if kind == "words":
        return np.array(words["values"], dtype=words["dtype"])
    if kind == "dict":
        return {_tree(key, arrays, record): _tree(value, arrays, record) for key, value in words["pairs"]}
    if kind == "record":
        return record(words, {name: _tree(value, arrays, record) for name, value in words["values"].items()})
    values = [_tree(value, arrays, record) for value in words["values"]]
    return tuple(values) if kind == "tuple" else values


def _record(words: dict[str, Any], values: dict[str, Any]) -> Any:
    kind = storable_class(words["name"])
    if kind is None or set(values) != set(kind._fields):
        raise ValueError(f"a {words['name']!r} with {sorted(values)}")
    return kind(**values)
