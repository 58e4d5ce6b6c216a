"""Limits against files that are damaged, or forged to take memory or time."""

from typing import NamedTuple

__all__ = ["Limits"]


class Limits(NamedTuple):
    """What a file may make a reader do before it has shown as much content. Real files stay far below."""

    # So many bytes may be declared, or unpickled, whatever a file stores. Fill values take none.
    bytes: int = 1 << 28
    # Beyond these, so many bytes may be declared for each that is stored. That of gzip is at most 1,032.
    ratio: int = 4096
    # A header, or content that is searched or read whole, has at most so many bytes, which takes tenths of a second.
    read_bytes: int = 64 << 20
    # An archive has at most so many members, or a list so many names.
    entries: int = 10_000
    # There are at most so many classes, and a label has at most so many bytes.
    labels: int = 1 << 16
    # A pickle takes at most so many steps, twenty times the number of a published batch of CIFAR-10.
    steps: int = 1 << 20
    # A message names at most so many of the things that are wrong.
    shown: int = 20
    # It has at most so many letters of what cannot be a name or a number.
    letters: int = 40
