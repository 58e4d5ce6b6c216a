"""Damage to bytes, as disks, transfers and forgers do it: functions of the bytes and a random.Random to other bytes."""

import random
import struct

__all__ = ["MUTATIONS", "mutate"]

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
