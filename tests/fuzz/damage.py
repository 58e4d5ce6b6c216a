"""Damage to files, as disks, transfers and forgers do it.

Bytes are changed by functions of the bytes and a random.Random. Files that are packed or have a structure are also
damaged within it, so that what is outside is as it should be.
"""

import bz2
import gzip
import io
import json
import random
import struct
import zipfile
from typing import Any

import h5py
import numpy as np
from fuzz.published import npy

__all__ = ["MUTATIONS", "changed", "damaged", "mutate"]

_TELLING = (0, 1, 0x7F, 0x80, 0xFF)
_POWERS = (7, 8, 15, 16, 31, 32, 40, 63)
_NUMBERS = (0, 1, 2, *(1 << k for k in _POWERS), *((1 << k) - 1 for k in _POWERS))
_LONGEST = 256


def _span(size: int, rng: random.Random) -> tuple[int, int]:
    """Return the bounds of a span of at least a byte, short ones more often than long ones."""
    length = min(size, 1 + int(rng.random() ** 3 * _LONGEST))
    start = rng.randrange(size - length + 1)
    return start, start + length


def flip_bit(data: bytes, rng: random.Random) -> bytes:
    """Flip one bit."""
    if not data:
        return b"\1"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def flip_bits(data: bytes, rng: random.Random) -> bytes:
    """Flip bits here and there."""
    for _ in range(rng.randint(2, 16)):
        data = flip_bit(data, rng)
    return data


def set_byte(data: bytes, rng: random.Random) -> bytes:
    """Set a byte to a value at which counts and signs turn."""
    if not data:
        return bytes([rng.choice(_TELLING)])
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice(_TELLING)]) + data[at + 1 :]


def truncate(data: bytes, rng: random.Random) -> bytes:
    """Cut the end off, often little of it."""
    lost = rng.randint(1, 64) if rng.random() < 0.5 else rng.randrange(len(data) + 1)
    return data[: max(0, len(data) - lost)]


def extend(data: bytes, rng: random.Random) -> bytes:
    """Append bytes."""
    return data + rng.randbytes(rng.randint(1, _LONGEST))


def overwrite(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a span with random bytes."""
    if not data:
        return rng.randbytes(1)
    start, stop = _span(len(data), rng)
    return data[:start] + rng.randbytes(stop - start) + data[stop:]


def zero(data: bytes, rng: random.Random) -> bytes:
    """Overwrite a span with zeros, as a disk does that lost a block."""
    if not data:
        return b"\0"
    start, stop = _span(len(data), rng)
    return data[:start] + bytes(stop - start) + data[stop:]


def delete(data: bytes, rng: random.Random) -> bytes:
    """Take a span out, so that what follows moves up."""
    if not data:
        return data
    start, stop = _span(len(data), rng)
    return data[:start] + data[stop:]


def splice(data: bytes, rng: random.Random) -> bytes:
    """Copy a span of the bytes over, or into, another place."""
    if not data:
        return data
    start, stop = _span(len(data), rng)
    at = rng.randrange(len(data) + 1)
    rest = at if rng.random() < 0.5 else at + stop - start
    return data[:at] + data[start:stop] + data[rest:]


def swap(data: bytes, rng: random.Random) -> bytes:
    """Exchange two spans of the same length."""
    if len(data) < 2:
        return data
    length = min(len(data) // 2, 1 + int(rng.random() ** 3 * _LONGEST))
    a = rng.randrange(len(data) - 2 * length + 1)
    b = rng.randrange(a + length, len(data) - length + 1)
    return data[:a] + data[b : b + length] + data[a + length : b] + data[a : a + length] + data[b + length :]


def write_number(data: bytes, rng: random.Random) -> bytes:
    """Write a number at which lengths and offsets go wrong, as wide as they are stored, in either order of bytes."""
    width = rng.choice((2, 4, 8))
    if len(data) < width:
        return data + b"\xff" * width
    at = rng.randrange(len(data) - width + 1)
    if rng.random() < 0.5:
        at -= at % width
    order, kind = rng.choice("<>"), {2: "H", 4: "I", 8: "Q"}[width]
    number = rng.choice(_NUMBERS) if rng.random() < 0.7 else rng.randrange(2 * len(data))
    number = -number if rng.random() < 0.2 else number
    return data[:at] + struct.pack(order + kind, number % (1 << 8 * width)) + data[at + width :]


def change_digit(data: bytes, rng: random.Random) -> bytes:
    """Change a run of digits in text, such as a shape in a header."""
    places = [k for k, byte in enumerate(data[:4096]) if 48 <= byte <= 57]
    if not places:
        return set_byte(data, rng)
    at = rng.choice(places)
    digits = rng.choice((b"0", b"-1", b"9", b"1e9", b"99999999999", str(rng.randrange(1 << 63)).encode()))
    return data[:at] + digits + data[at + 1 :]


MUTATIONS = (
    flip_bit,
    flip_bits,
    set_byte,
    truncate,
    extend,
    overwrite,
    zero,
    delete,
    splice,
    swap,
    write_number,
    change_digit,
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Return the bytes after one mutation or a few."""
    for _ in range(1 if rng.random() < 0.7 else rng.randint(2, 4)):
        data = rng.choice(MUTATIONS)(data, rng)
    return data


# --- damage within a structure ---------------------------------------------------------------------------


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
