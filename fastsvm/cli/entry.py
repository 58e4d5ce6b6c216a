"""The command `fastsvm`: exit codes, errors and warnings in a line each."""

import argparse
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import fastsvm.cli.commands as commands
from fastsvm.cli.arguments import make_parser
from fastsvm.cli.output import show
from fastsvm.jobs.say import in_options, say
from fastsvm.jobs.stopping import ended_by_signals
from fastsvm.jobs.visible import visible

__all__ = ["main"]

_BAD_INPUT = (ValueError, TypeError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments : sequence of str or None
        The words after `fastsvm`; None for those of the process.

    Returns
    -------
    int
        0 for success, 2 for bad input with one line on standard error, 1 for another error, 130 after Ctrl-C, 143
        after SIGTERM, 129 after SIGHUP.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal or a pipe may lack letters
    if sys.stderr is None:  # closed; progress is shown there
        sys.stderr = io.StringIO()
    options = make_parser().parse_args(arguments)
    try:
        with ended_by_signals(), warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)  # the base class of ConvergenceWarning
            warnings.showwarning = _say_warning
            report = options.run(options)
        with _flushed():
            show(report, options.json)
    except KeyboardInterrupt as stop:
        say(f"interrupted{_how_to_resume(options)}")
        return 128 + getattr(stop, "number", 2)
    except BrokenPipeError:  # the reader of the output has ended
        return 1
    except _BAD_INPUT as error:
        say(_one_line(error))
        return 2
    except Exception as error:
        how = _how_to_resume(options) if isinstance(error, OSError) and options.run is not commands.do_predict else ""
        say(f"failed: {type(error).__name__}: {_one_line(error)}{how}")
        return 1
    return 0


@contextmanager
def _flushed() -> Iterator[None]:
    """Raise errors of standard output here. Python would raise them at its end, where nobody can say them."""
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is left in its buffer
        raise


def _how_to_resume(options: argparse.Namespace) -> str:
    if options.run is commands.do_predict:
        return "; the same command resumes where it stopped"
    folder = getattr(options, "folder", None) or getattr(options, "run_folder", None)
    return f"; resume with: fastsvm resume {folder}" if folder and Path(folder, "job.json").exists() else ""


def _one_line(error: BaseException | str) -> str:
    return in_options(visible(" ".join(str(error).split())))


def _say_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    if issubclass(category, UserWarning):
        say(f"warning: {_one_line(message)}")
