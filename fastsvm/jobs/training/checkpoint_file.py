"""Checkpoint files: written atomically, with a version and a checksum; the last two are kept.

A checkpoint holds the state of a solver: a tree of numbers, text, arrays and NamedTuples that are `storable`. The file
holds the arrays and, in JSON, the skeleton of the tree. It is never pickled. It names the job and the data that it
belongs to, and is refused for others.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastsvm.files.array_file import read_arrays, write_arrays
from fastsvm.files.atomic_file import atomic_write
from fastsvm.files.storable import storable_class, stored_name

__all__ = ["Checkpoints", "DamagedCheckpoint", "FoundCheckpoint", "check_bound"]

FORMAT = "fastsvm-checkpoint"
VERSION = 2
_KEPT = 2  # So many checkpoints are kept: the last one may be damaged.
_KIND = "$"  # key of the skeleton that tells what an object stands for


class DamagedCheckpoint(ValueError):
    """A file that is damaged, is not a checkpoint, or was written by another version."""


class FoundCheckpoint(NamedTuple):
    """A checkpoint that was read: its number, its tree, and why later checkpoints were refused."""

    number: int
    tree: Any
    refused: list[str]


class Checkpoints:
    """The checkpoints of a run, in its folder.

    `bound_to`, values for JSON, identify the job and the data. A checkpoint with other values is refused.
    """

    def __init__(self, folder: Path, bound_to: dict[str, Any]) -> None:
        self.folder, self.bound_to = folder, json.loads(json.dumps(bound_to))

    def files(self) -> list[Path]:
        """Return the checkpoint files, the latest first."""
        return sorted(self.folder.glob("checkpoint-*.fastsvm"), key=_number, reverse=True)

    def save(self, tree: Any) -> Path:
        """Write a checkpoint, then remove all but the last two; return its file.

        If it cannot be written, OSError is raised, and the existing checkpoints stay.
        """
        last = self.files()
        number = 1 + (_number(last[0]) if last else 0)
        path = self.folder / f"checkpoint-{number:08d}.fastsvm"
        with atomic_write(path) as part:
            write(part, tree, self.bound_to)
        for old in self.files()[_KEPT:]:
            old.unlink(missing_ok=True)
        return path

    def latest(self) -> FoundCheckpoint | None:
        """Return the latest checkpoint that is not damaged, None if there is no checkpoint.

        DamagedCheckpoint says that all are damaged, ValueError that one belongs to another job or other data.
        """
        refused: list[str] = []
        for path in self.files():
            try:
                return FoundCheckpoint(_number(path), read(path, self.bound_to), refused)
            except DamagedCheckpoint as error:
                refused.append(str(error))
        if refused:
            raise DamagedCheckpoint(" ".join(refused) + " Nothing was overwritten. Start a new run in another folder.")
        return None


def _number(path: Path) -> int:
    return int(path.stem.removeprefix("checkpoint-"))


def write(path: Path, tree: Any, bound_to: dict[str, Any]) -> None:
    """Write a checkpoint to a file.

    OSError says that it cannot be written, TypeError that the tree holds an object that cannot be stored.
    """
    arrays: dict[str, np.ndarray] = {}
    header = {"format": FORMAT, "version": VERSION, "tree": _skeleton(tree, arrays), "bound_to": bound_to}
    write_arrays(path, json.dumps(header), arrays)


def read(path: Path, bound_to: dict[str, Any]) -> Any:
    """Return the tree of a checkpoint.

    DamagedCheckpoint says that the file is damaged, is not a checkpoint, or was written by another version; ValueError
    that it belongs to another job or other data.
    """
    try:
        header, arrays = read_arrays(path)
    except (OSError, ValueError) as error:
        raise DamagedCheckpoint(f"{path} is damaged or not a checkpoint: {error}") from error
    if header.get("format") != FORMAT:
        raise DamagedCheckpoint(f"{path} holds arrays but is not a checkpoint.")
    if header.get("version") != VERSION:
        raise DamagedCheckpoint(
            f"{path} has checkpoint format {header.get('version')}; this fastsvm reads format {VERSION}. Install the "
            "version that wrote it."
        )
    check_bound(header["bound_to"], bound_to, path)
    try:
        return _tree(header["tree"], arrays)
    except Exception as error:  # a forged skeleton may hold any JSON value anywhere
        raise DamagedCheckpoint(f"{path} holds a state that this fastsvm does not know: {error}.") from error


def check_bound(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    """Raise ValueError if a file belongs to another job or to other data."""
    for name in wanted.keys() | found.keys():
        if found.get(name) != wanted.get(name):
            raise ValueError(
                f"Cannot resume from {path}, because the {name} changed: it was {found.get(name)} and is now "
                f"{wanted.get(name)}. Undo the change, or start a new run in another folder."
            )


def _skeleton(tree: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a tree as JSON values; its arrays are added to `arrays`."""
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
    if isinstance(tree, tuple) and (names := getattr(tree, "_fields", None)) is not None:
        values = {name: _skeleton(value, arrays) for name, value in zip(names, tree, strict=True)}
        return {_KIND: "record", "name": stored_name(type(tree)), "values": values}
    if isinstance(tree, (list, tuple)):
        return {_KIND: type(tree).__name__, "values": [_skeleton(value, arrays) for value in tree]}
    raise TypeError(f"{type(tree).__name__} cannot be stored in a checkpoint.")


def _tree(words: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return the tree of a skeleton and arrays."""
    if not isinstance(words, dict):
        return words
    kind = words[_KIND]
    if kind == "array":
        return arrays[words["name"]]
    if kind == "words":
        return np.array(words["values"], dtype=words["dtype"])
    if kind == "dict":
        return {_tree(key, arrays): _tree(value, arrays) for key, value in words["pairs"]}
    if kind == "record":
        return _record(words["name"], {name: _tree(value, arrays) for name, value in words["values"].items()})
    values = [_tree(value, arrays) for value in words["values"]]
    return tuple(values) if kind == "tuple" else values


def _record(name: str, values: dict[str, Any]) -> Any:
    kind = storable_class(name)
    fields, defaults = set(getattr(kind, "_fields", ())), set(getattr(kind, "_field_defaults", ()))
    if kind is None or not fields - defaults <= set(values) <= fields:  # older files lack fields that were added since
        raise ValueError(f"a {name!r} with {sorted(values)}")
    return kind(**values)
