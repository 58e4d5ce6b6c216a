"""Ctrl-C while the command starts: it ends at once with code 130, without a traceback.

The imports of the package take seconds, and come before the command line can catch anything. So `fastsvm/__init__.py`
imports this module first. Programs that import the package keep their own handler.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType


def is_command() -> bool:
    """Return whether this process runs `fastsvm` or `python -m fastsvm`."""
    program = (getattr(sys, "argv", None) or [""])[0]
    if program == "-m":  # as it is while Python imports the packages of the module to run
        return sys.orig_argv[sys.orig_argv.index("-m") + 1 :][:1] == ["fastsvm"]
    return os.path.splitext(os.path.basename(program))[0] == "fastsvm"


def _end(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, b"fastsvm: interrupted\n")
    os._exit(128 + number)


with suppress(ValueError):  # signals are for the main thread, and "-mfastsvm" is one word
    if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)
