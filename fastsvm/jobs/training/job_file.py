"""What a training job is: a TOML file, every key of which is known, with flags that override keys.

[data]
train = "cifar10.h5"        # HDF5, or any format that `fastsvm convert` reads; paths are relative to the file
test = "cifar10-test.h5"    # or holdout = 0.1
[model]
kind = "svc"                # and parameters of that estimator
C = 10.0
[search]                    # optional: lists of values to try, by cross-validation
C = [1.0, 10.0, 100.0]
folds = 5
[limits]
memory = "2GiB"
threads = 2
time = "8h"
[checkpoint]
every = "30s"
[output]
report = true
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from fastsvm.estimators import ESTIMATORS
from fastsvm.formats import FORMATS
from fastsvm.memory import parse_memory

__all__ = ["Job", "job_of", "parse_seconds", "read_job", "with_flags"]

_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_NOT_OF_A_JOB = {"memory", "max_time", "verbose", "random_state", "warm_start", "n_jobs"}
_SEARCH_KEYS = ("folds", "scoring")


class Job(NamedTuple):
    """A job whose keys and values were checked.

    Attributes
    ----------
    train, test : str, str or None
        Files of rows to learn from and to measure with; absolute paths.
    format : str or None
        Of the files, a key of `formats.FORMATS`; None for HDF5, or whichever is recognised.
    holdout : float
        Share of the rows of `train` that are kept for measuring.
    seed : int
        Which rows those are, and all else that is random.
    kind : str
        A key of `fastsvm.estimators.ESTIMATORS`.
    parameters : dict
        Of that estimator.
    grid : dict of str to list
        Values to be tried; empty if none are.
    folds : int
        Of the cross-validation that compares them.
    scoring : str or None
        What it compares, a name of scikit-learn's; None for the estimator's own score.
    memory : str or int or None
        As the estimators take it; None for theirs.
    threads : int or None
        Threads; None for all.
    seconds : float or None
        After which the run ends with what it has.
    checkpoint_seconds : float
        From one checkpoint to the next.
    report : bool
        Whether a page with pictures is written.
    """

    train: str
    test: str | None = None
    format: str | None = None
    holdout: float = 0.0
    seed: int = 0
    kind: str = "svc"
    parameters: Mapping[str, Any] = MappingProxyType({})
    grid: Mapping[str, list] = MappingProxyType({})
    folds: int = 5
    scoring: str | None = None
    memory: str | int | None = None
    threads: int | None = None
    seconds: float | None = None
    checkpoint_seconds: float = 30.0
    report: bool = True


def read_job(path: str | Path, flags: Sequence[str] = ()) -> Job:
    """Return the job in a file.

    Parameters
    ----------
    path : str or Path
        A TOML file.
    flags : sequence of str
        Keys with other values, as `model.C=10`.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not TOML, or a key or value is not known; the message names the nearest key.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no job file {path}.")
    try:
        words = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    return job_of(with_flags(words, flags), path.parent, str(path))


def with_flags(words: Mapping[str, Any], flags: Sequence[str]) -> dict[str, Any]:
    """Return sections in which some keys have other values, each given as `section.key=value`, in TOML's spelling."""
    found = {name: dict(section) if isinstance(section, Mapping) else section for name, section in words.items()}
    for flag in flags:
        name, equals, text = flag.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and section and key):
            raise ValueError(f"{flag!r} should be section.key=value, for example model.C=10.")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()  # a word without quotes
        if not isinstance(found.setdefault(section, {}), dict):
            raise ValueError(f"{section} should be a section [{section}], found {found[section]!r}.")
        found[section][key] = value
    return found


def job_of(words: Mapping[str, Any], folder: Path, where: str = "the job") -> Job:
    """Return the job that sections of keys describe; relative paths begin at `folder`."""
    reader = _Reader(where)
    reader.refuse_unknown("", words, ("data", "model", "search", "limits", "checkpoint", "output"))
    sections = {name: reader.section(words, name) for name in _SECTIONS}
    for name, keys in _SECTIONS.items():
        if keys is not None:
            reader.refuse_unknown(name, sections[name], keys)
    data, limits = sections["data"], sections["limits"]
    if "train" not in data:
        raise ValueError(f"{where} has no data.train, the file with the rows to learn from.")
    if "test" in data and "holdout" in data:
        raise ValueError(f"{where} has data.test and data.holdout; leave out one of them.")
    kind, parameters = _model(reader, sections["model"], data)
    memory = limits.get("memory")
    if memory is not None:
        reader.value("limits", "memory", lambda: parse_memory(memory))
    return Job(
        train=reader.path("data", "train", data, folder),
        test=reader.path("data", "test", data, folder),
        format=reader.one_of("data", "format", data, tuple(FORMATS)),
        holdout=reader.number("data", "holdout", data, 0.0, least=0.0, below=1.0),
        seed=reader.whole("data", "seed", data, 0, least=0),
        kind=kind,
        parameters=parameters,
        grid=_grid(reader, sections["search"], kind),
        folds=reader.whole("search", "folds", sections["search"], 5, least=2),
        scoring=reader.word("search", "scoring", sections["search"]),
        memory=memory,
        threads=reader.whole("limits", "threads", limits, None, least=1),
        seconds=reader.seconds("limits", "time", limits, None),
        checkpoint_seconds=reader.seconds("checkpoint", "every", sections["checkpoint"], 30.0),
        report=reader.boolean("output", "report", sections["output"], True),
    )


_SECTIONS: dict[str, tuple[str, ...] | None] = {
    "data": ("train", "test", "holdout", "seed", "format", "standardize"),
    "model": None,
    "search": None,
    "limits": ("memory", "threads", "time"),
    "checkpoint": ("every",),
    "output": ("report",),
}


def _model(reader: "_Reader", section: Mapping[str, Any], data: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the kind of the model and its parameters."""
    kind = reader.one_of("model", "kind", section, tuple(ESTIMATORS)) or "svc"
    parameters = {name: value for name, value in section.items() if name != "kind"}
    reader.refuse_unknown("model", parameters, _parameters_of(kind), f" of kind {kind!r}")
    if "standardize" in data:
        reader.boolean("data", "standardize", data, False)
        if "standardize" not in _parameters_of(kind):
            raise ValueError(
                f"{reader.where}: data.standardize cannot be used with model.kind = {kind!r}, whose kernels see rows "
                "as they are stored. Store them scaled, or use kind = 'linear' or 'sgd'."
            )
        parameters["standardize"] = data["standardize"]
    return kind, parameters


def _parameters_of(kind: str) -> tuple[str, ...]:
    """Return the names of the parameters that a job may set; others it sets itself."""
    return tuple(name for name in signature(ESTIMATORS[kind]).parameters if name not in _NOT_OF_A_JOB)


def _grid(reader: "_Reader", section: Mapping[str, Any], kind: str) -> dict[str, list]:
    """Return lists of values by parameters' names."""
    grid = {name: values for name, values in section.items() if name not in _SEARCH_KEYS}
    reader.refuse_unknown("search", grid, (*_parameters_of(kind), *_SEARCH_KEYS), f" of kind {kind!r}")
    if section and not grid:
        raise ValueError(f"{reader.where}: [search] names no parameter to search over, for example C = [1, 10].")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{reader.where}: search.{name} should be a list of values to try, found {values!r}.")
    return grid


class _Reader:
    """Takes values from sections, with errors that say where they are."""

    def __init__(self, where: str) -> None:
        self.where = where

    def section(self, words: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        found = words.get(name, {})
        if not isinstance(found, Mapping):
            raise ValueError(f"{self.where}: {name} should be a section [{name}], found {found!r}.")
        return found

    def refuse_unknown(self, section: str, found: Mapping[str, Any], known: Sequence[str], more: str = "") -> None:
        for name in found:
            if name not in known:
                near = get_close_matches(name, known, 1, 0.5)
                meant = f" Do you mean {near[0]!r}?" if near else f" There are {', '.join(known)}."
                what = f"{section}.{name} is no key{more}" if section else f"[{name}] is no section"
                raise ValueError(f"{self.where}: {what}.{meant}")

    def wrong(self, section: str, key: str, wanted: str, found: Any) -> ValueError:
        return ValueError(f"{self.where}: {section}.{key} should be {wanted}, found {found!r}.")

    def value(self, section: str, key: str, make: Any) -> Any:
        try:
            return make()
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self.where}: {section}.{key}: {error}") from error

    def word(self, section: str, key: str, found: Mapping[str, Any]) -> str | None:
        value = found.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise self.wrong(section, key, "a word", value)
        return value

    def path(self, section: str, key: str, found: Mapping[str, Any], folder: Path) -> str | None:
        word = self.word(section, key, found)
        return None if word is None else str((folder / Path(word).expanduser()).resolve())

    def one_of(self, section: str, key: str, found: Mapping[str, Any], known: tuple[str, ...]) -> str | None:
        word = self.word(section, key, found)
        if word is not None and word not in known:
            near = get_close_matches(word, known, 1, 0.5)
            raise self.wrong(section, key, f"one of {', '.join(known)}{f' ({near[0]!r}?)' if near else ''}", word)
        return word

    def boolean(self, section: str, key: str, found: Mapping[str, Any], usual: bool) -> bool:
        value = found.get(key, usual)
        if not isinstance(value, bool):
            raise self.wrong(section, key, "true or false", value)
        return value

    def number(
        self, section: str, key: str, found: Mapping[str, Any], usual: float, least: float, below: float
    ) -> float:
        value = found.get(key, usual)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value < below:
            raise self.wrong(section, key, f"a number from {least:g} to less than {below:g}", value)
        return float(value)

    def whole(self, section: str, key: str, found: Mapping[str, Any], usual: Any, least: int) -> Any:
        value = found.get(key, usual)
        if value is not usual and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise self.wrong(section, key, f"a whole number of at least {least}", value)
        return value

    def seconds(self, section: str, key: str, found: Mapping[str, Any], usual: float | None) -> float | None:
        value = found.get(key, usual)
        return usual if value is None else self.value(section, key, lambda: parse_seconds(value))


def parse_seconds(text: str | float) -> float:
    """Return a time in seconds.

    Parameters
    ----------
    text : str or float
        Seconds, or a number with one of the units ms, s, min (or m), h, d, as "1.5h"; several are added: "1h 30min".

    Raises
    ------
    ValueError
        If it is anything else, or not positive.

    Examples
    --------
    >>> parse_seconds("1h 30min")
    5400.0
    """
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        total = float(text)
    else:
        parts = re.findall(r"([0-9.]+)\s*([a-z]+)", str(text)) if isinstance(text, str) else []
        rest = re.sub(r"([0-9.]+)\s*([a-z]+)", "", str(text)).strip()
        try:
            total = sum(float(number) * _UNITS[unit] for number, unit in parts)
        except (KeyError, ValueError):
            rest = str(text)
        if rest or not parts:
            raise ValueError(f"a time is seconds or a number with ms, s, min, h or d, as '1h 30min'; found {text!r}.")
    if not 0 < total < float("inf"):
        raise ValueError(f"a time should be positive, found {text!r}.")
    return total
