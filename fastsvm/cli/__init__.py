"""The command line: `fastsvm convert | fetch | info | train | run | resume | status | predict | evaluate | demo`."""

from fastsvm.cli.entry import main

__all__ = ["main"]
