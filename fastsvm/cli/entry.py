"""The command `fastsvm`: reports as text or as JSON, exit codes, errors and warnings in a line each."""

import argparse
import errno
import io
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import fastsvm.cli.commands as commands
from fastsvm.cli.arguments import make_parser
from fastsvm.jobs.inputs import Json, remove_left_tables
from fastsvm.jobs.say import in_options, say, visible
from fastsvm.jobs.stopping import ended_by_signals
from fastsvm.tuning import current_tuning

_BAD_INPUT = (
    ValueError,
    TypeError,
    BlockingIOError,
    FileNotFoundError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
)
_BAD_PATHS = {  # what is said of a path
    errno.ENOENT: "There is no file or folder {}.",
    errno.ENOTDIR: "{} cannot exist: a part of this path is a file.",
    errno.EISDIR: "{} is a folder; name a file.",
    errno.EEXIST: "{} exists; name another one.",
    errno.EACCES: "{} cannot be used: permission is denied.",
    errno.EPERM: "{} cannot be used: permission is denied.",
    errno.EROFS: "{} cannot be written: its file system is read-only.",
    errno.ELOOP: "{} is a symbolic link that leads to itself.",
    errno.ENAMETOOLONG: "The path {} is too long: most systems allow 255 bytes in a name and 4,096 in all.",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line with the words after `fastsvm`, None for those of the process, and return its exit code.

    It is 0 for success, 2 for bad input with one line on standard error, 1 for another error, 130 after Ctrl-C, 143
    after SIGTERM, 129 after SIGHUP.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal or a pipe may lack letters
    if sys.stderr is None:  # closed; progress is shown there
        sys.stderr = io.StringIO()
    options = make_parser().parse_args(arguments)
    try:
        with ended_by_signals(), warnings.catch_warnings():
            remove_left_tables()
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
        say(_one_line(_of_path(error) or error))
        return 2
    except Exception as error:
        how = _how_to_resume(options) if isinstance(error, OSError) and options.run is not commands.do_predict else ""
        if not how and (words := _of_path(error)) is not None:
            say(_one_line(words))
            return 2
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
    is_run = folder and os.path.exists(os.path.join(folder, "job.json"))  # False for paths that are too long
    return f"; resume with: fastsvm resume {folder}" if is_run else ""


def _of_path(error: Exception) -> str | None:
    """Return what an error of the system says of a path, in plain words; None for other errors."""
    if not isinstance(error, OSError) or error.filename is None or error.errno not in _BAD_PATHS:
        return None
    if error.strerror != os.strerror(error.errno):  # somebody has added words
        return None
    path = str(error.filename)
    most = current_tuning().limits.letters
    short = path if len(path) <= most else f"{path[:most]}..."
    return _BAD_PATHS[error.errno].format(short if error.errno == errno.ENAMETOOLONG else path)


def _one_line(error: BaseException | str) -> str:
    return in_options(visible(" ".join(str(error).split())))


def _say_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    if issubclass(category, UserWarning):
        say(f"warning: {_one_line(message)}")


# --- reports -----------------------------------------------------------------------------------------------------


def show(report: Json, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print(json.dumps(report, default=str))
        return
    width = max((len(name) for name in report), default=0)
    for name, value in report.items():
        if value is None or value == "" or value == [] or value == {}:
            continue
        lines = _lines(value)
        print(f"{name.replace('_', ' '):{width}}  {visible(lines[0])}")
        for line in lines[1:]:
            print(f"{'':{width}}  {visible(line)}")


def _in_one_line(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_in_one_line(item)}" for name, item in value.items())
    return _lines(value)[0]


def _lines(value: object) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {_in_one_line(item)}" for name, item in value.items()]
    if isinstance(value, list) and value and isinstance(value[0], list):
        cell = max(len(str(number)) for row in value for number in row)
        return [" ".join(f"{number:>{cell}}" for number in row) for row in value]
    if isinstance(value, list):
        return [" ".join(str(item) for item in value)]
    if isinstance(value, float):
        return [f"{value:.6g}"]
    return [str(value)]
