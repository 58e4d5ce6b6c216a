"""Numbers of rows and files: how much is read, copied or held at once."""

from typing import NamedTuple

__all__ = ["StorageTuning"]


class StorageTuning(NamedTuple):
    """How much of rows and files is read, copied or held at once. Bytes are those of the rows as they are stored."""

    # A block of rows of a file, or a chunk of a file that is written, has about so many bytes.
    block_bytes: int = 4 << 20
    # It has at most one part in so many of all rows of its file, or one would be read long before others.
    least_blocks: int = 16
    # What is copied, converted, hashed or summed at once has about so many bytes, which stay near the processor.
    piece_bytes: int = 1 << 20
    # A block or run has at least so many bytes, or calls of HDF5 would take longer than the reading.
    run_bytes: int = 1 << 16
    # A block of rows in memory has so many rows: work once per block, such as preparing support vectors, is cheap.
    resident_rows: int = 4096
    # A window has at least so many runs: new windows in each epoch save dual ascent nine of ten epochs.
    runs: int = 8
    # A block may take one part in so many of the memory, as three or four are there at once.
    block_share: int = 32
    # So may a window of blocks, of which three are there at once, or rows of tiles that are unpacked together.
    window_share: int = 8
    # So may what is there packed, unpacked and copied, or beside all that a fit needs.
    loaded_share: int = 3
