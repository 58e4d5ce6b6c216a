"""The command line, `fastsvm COMMAND`."""

from fastsvm.cli.entry import main

__all__ = ["main"]
