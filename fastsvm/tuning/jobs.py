"""Numbers of the commands and their jobs."""

from typing import NamedTuple

__all__ = ["JobsTuning"]


class JobsTuning(NamedTuple):
    """How often a job speaks, saves and tries again, and how much it does in between. Times are in seconds."""

    # A block of rows that are predicted, or written in another order, has at most so many rows.
    block_rows: int = 16_384
    # It has at most so many decision values, which take 64 MiB.
    decisions: int = 1 << 23
    # Where there is no terminal, a line says every so often how far a job is. A full disk is given as much time.
    say_s: float = 30.0
    # The log gets an event of progress, and predictions a journal, no more often than this.
    log_s: float = 2.0
    # A step that a signal should end may take so long. As long is waited before writing is tried again.
    wait_s: float = 1.0
    # Saving what is done so far may take this share of the time.
    save_share: float = 0.02
    # A search may take this share of the limit of time, and its samples as much of the memory.
    search_share: float = 0.5
