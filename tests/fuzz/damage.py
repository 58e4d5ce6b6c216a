"""Damage to files that are packed or have a structure: within it, so that what is outside is as it should be."""

import bz2
import gzip
import io
import json
import random
import zipfile
from typing import Any

import h5py
import numpy as np
from fuzz.mutations import mutate
from fuzz.published import npy

__all__ = ["changed", "damaged"]


def damaged(name: str, data: bytes, rng: random.Random) -> bytes:
    """Return a file's bytes after damage, half of the time to what they hold when they are unpacked."""
    if rng.random() < 0.5:
        return mutate(data, rng)
    try:
        if name.endswith(".tar.gz"):
            return gzip.compress(mutate(gzip.decompress(data), rng), 1)
        if name.endswith(".gz"):
            return gzip.compress(mutate(gzip.decompress(data), rng))
        if name.endswith(".bz2"):
            return bz2.compress(mutate(bz2.decompress(data), rng))
        if data[:4] == b"PK\3\4":
            return _damaged_zip(data, rng)
        if data[:8] == b"\x89HDF\r\n\x1a\n":
            return _damaged_hdf5(data, rng)
    except Exception:  # of HDF5 or an archive that cannot hold what it was to hold
        pass
    return mutate(data, rng)


def _damaged_zip(data: bytes, rng: random.Random) -> bytes:
    """Damage a member, whose checksum is then right; or rename it, leave it out or double it."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
        stored = archive.infolist()[0].compress_type
    at = rng.randrange(len(members))
    name, content = members[at]
    kind = rng.random()
    if kind < 0.7:
        members[at] = name, mutate(content, rng)
    elif kind < 0.8:
        members[at] = mutate(name.encode(), rng).decode("latin-1"), content
    elif kind < 0.9:
        del members[at]
    else:
        members[at] = (
            name,
            npy(rng.choice([np.zeros(0), np.zeros((0, 3)), np.array("x"), np.zeros((2, 2, 2)), np.array(3)])),
        )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", stored) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def _damaged_hdf5(data: bytes, rng: random.Random) -> bytes:
    """Change what an HDF5 file holds by HDF5 itself: as a forger does, or another program by mistake."""
    file_like = io.BytesIO(data)
    with h5py.File(file_like, "r+") as file:
        nodes: list[str] = []
        file.visit(nodes.append)
        where = rng.choice([*nodes, "/"])
        node = file[where]
        if rng.random() < 0.3 and len(node.attrs):
            _change_attribute(node, rng)
        elif where != "/":
            _change_node(file, where, rng)
        else:
            file["extra"] = rng.choice([1.0, "x"])
    return file_like.getvalue()


def _change_attribute(node: Any, rng: random.Random) -> None:
    name = rng.choice(sorted(node.attrs))
    value = node.attrs[name]
    kind = rng.randrange(4)
    if kind == 0:
        del node.attrs[name]
    elif kind == 1 and isinstance(value, str) and value.startswith("{"):
        node.attrs[name] = _changed_json(value, rng)
    elif isinstance(value, str):
        node.attrs[name] = mutate(value.encode(), rng).decode("latin-1").replace("\0", "")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
        node.attrs[name] = changed(value, rng)
    else:
        node.attrs[name] = rng.choice([0, -1, 1.5, "x"])


def _changed_json(text: str, rng: random.Random) -> str:
    """Change a value somewhere in a JSON object."""
    words = json.loads(text)
    place: Any = words
    while True:
        key = rng.choice(sorted(place) if isinstance(place, dict) else range(len(place))) if place else None
        if key is None:
            break
        if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        if isinstance(place, dict) and rng.random() < 0.3:
            del place[key]
        else:
            place[key] = rng.choice([None, -1, 0, 1.5, "x", [], {}, True, 10**30, "\ud800"])
        break
    return json.dumps(words)


def _change_node(file: h5py.File, where: str, rng: random.Random) -> None:
    node = file[where]
    array = node[()] if isinstance(node, h5py.Dataset) else None
    attributes = dict(node.attrs)
    kind = rng.randrange(6)
    del file[where]
    if kind == 0:
        return
    if kind == 1:
        file[where] = h5py.SoftLink(rng.choice(["/nowhere", "/", where]))
        return
    if kind == 2:
        file[where] = np.dtype("f8") if rng.random() < 0.5 else h5py.Empty("f4")
        return
    if kind == 3:
        file.create_group(where)
    elif isinstance(array, np.ndarray) and array.dtype.kind in "iufb":
        file[where] = changed(array, rng)
    else:
        file[where] = rng.choice([1.0, "x"])
    if rng.random() < 0.8:
        for name, value in attributes.items():
            file[where].attrs[name] = value


def changed(array: np.ndarray, rng: random.Random) -> np.ndarray:
    """Return the array with something changed."""
    array = np.array(array)
    kind = rng.randrange(7)
    if kind == 0:
        return array[..., : rng.randrange(array.shape[-1])] if array.ndim and array.shape[-1] else array[None]
    if kind == 1:
        return np.concatenate([array, array[:1]]) if array.ndim else np.array([array, array])
    if kind == 2:
        return array.reshape(-1, *array.shape)
    if kind == 3:
        return array.astype(rng.choice(["f4", "i8", "u1", "S4"])) if array.dtype.kind in "fiu" else array[::-1]
    if kind == 4 and array.ndim:
        return array[:0]
    if array.size and array.dtype.kind in "fiu":
        flat = array.reshape(-1).copy()
        real = [np.nan, np.inf, 1e30, -1.0, 0.0]
        whole = [0, -1, 1, 2**31 - 1, -(2**31), 2**40]
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(real if array.dtype.kind == "f" else whole)).astype(
                array.dtype
            )
        return flat.reshape(array.shape)
    return array[::-1] if array.ndim else array
