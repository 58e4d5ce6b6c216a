"""Training jobs: a TOML file whose keys are all checked, and command-line flags that override keys.

[data]
train = "cifar10.h5"        # HDF5, or any format that `fastsvm convert` reads; paths are relative to the file
label = "kind"              # optional, for files that are converted, as id = "name", sample_weight, first_index
test = "cifar10-test.h5"    # or holdout = 0.1
[model]
kind = "svc"                # with the parameters of that estimator
C = 10.0
[search]                    # optional: lists of values, compared by cross-validation
C = [1.0, 10.0, 100.0]
folds = 5
[limits]
memory = "2GiB"
threads = 2
time = "8h"
[cluster]                   # optional: the fit is on the workers of a Dask cluster, with the extra `dask`
scheduler = "tcp://host:8786"   # or local = {workers = 2}
[checkpoint]
every = "30s"
[output]
report = true
"""

import tomllib
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from sklearn.base import is_outlier_detector

from fastsvm.estimators import ESTIMATORS
from fastsvm.formats import FORMATS
from fastsvm.jobs.training.cluster import estimators_of
from fastsvm.jobs.training.section_reader import SectionReader
from fastsvm.memory import parse_memory

__all__ = ["OF_FORMATS", "Job", "job_of", "learns_labels", "read_job", "with_flags"]

_NOT_OF_A_JOB = {"memory", "max_time", "verbose", "random_state", "warm_start", "n_jobs", "client", "n_shards"}
_SEARCH_KEYS = ("folds", "scoring")


class Job(NamedTuple):
    """A job with checked keys and values.

    `format`, `label`, `id`, `sample_weight` and `first_index` are as for `convert`; label is False for a model that
    learns none. `cluster` has "scheduler", an address, or "local", a mapping with "workers" and perhaps "threads"; and
    perhaps "shards". It is None for a fit on this machine.
    """

    train: str  # It is the absolute path of the training samples.
    test: str | None = None  # It is the absolute path of the test samples.
    format: str | None = None
    holdout: float = 0.0  # This share of the samples of `train` is held out for the test.
    seed: int = 0  # It draws the held-out samples, and is that of the estimator.
    kind: str = "svc"  # It is a key of `fastsvm.estimators.ESTIMATORS`.
    parameters: Mapping[str, Any] = MappingProxyType({})
    grid: Mapping[str, list] = MappingProxyType({})  # Values to compare are by parameter; without a search it is empty.
    folds: int = 5
    scoring: str | None = None  # It names a scorer of scikit-learn; None is the estimator's own score.
    memory: str | int | None = None  # It is the budget, as for the estimators; None is their default.
    threads: int | None = None  # None takes all.
    seconds: float | None = None  # The run has this limit of time; None sets no limit.
    checkpoint_seconds: float = 30.0  # Two checkpoints are so many seconds apart.
    report: bool = True  # It says whether `report.html` is written.
    label: str | int | bool | None = None
    id: str | int | None = None
    cluster: Mapping[str, Any] | None = None
    sample_weight: str | int | None = None
    first_index: int | None = None


def read_job(path: str | Path, flags: Sequence[str] = (), scheduler: str | None = None) -> Job:
    """Return the job in a TOML file, with keys that flags such as `model.C=10` override.

    `scheduler` is the address of the scheduler of a cluster, in place of that of the file. FileNotFoundError says that
    there is no such file, ValueError that it is not TOML, or that a key or a value is not valid. Its message names the
    nearest valid key.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no job file {path}.")
    try:
        words = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors of Windows begin a file by a mark
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    words = with_flags(words, flags)
    if scheduler is not None:
        words["cluster"] = {**words.get("cluster", {}), "scheduler": scheduler}
        words["cluster"].pop("local", None)
    return job_of(words, path.parent, str(path))


def with_flags(words: Mapping[str, Any], flags: Sequence[str]) -> dict[str, Any]:
    """Return sections in which some keys are overridden, each by a flag `section.key=value` in TOML's spelling.

    A flag of another form raises ValueError.
    """
    found = {name: dict(section) if isinstance(section, Mapping) else section for name, section in words.items()}
    for flag in flags:
        name, equals, text = flag.partition("=")
        section, dot, key = name.strip().partition(".")
        if not (equals and dot and section and key):
            raise ValueError(f"A flag must be section.key=value, for example model.C=10; found {flag!r}.")
        try:
            value = tomllib.loads(f"value = {text.strip()}")["value"]
        except tomllib.TOMLDecodeError:
            value = text.strip()  # a word without quotes
        if not isinstance(found.setdefault(section, {}), dict):
            raise ValueError(f"{section} must be a section [{section}], found {found[section]!r}.")
        found[section][key] = value
    return found


def job_of(words: Mapping[str, Any], folder: Path, where: str = "the job") -> Job:
    """Return the job that some sections of keys describe; ValueError says that a key or a value is not valid.

    Relative paths begin at `folder`; messages name the job file as `where`.
    """
    reader = SectionReader(where)
    reader.refuse_unknown("", words, ("data", "model", "search", "limits", "cluster", "checkpoint", "output"))
    sections = {name: reader.section(words, name) for name in _SECTIONS}
    for name, keys in _SECTIONS.items():
        if keys is not None:
            reader.refuse_unknown(name, sections[name], keys)
    data, limits = sections["data"], sections["limits"]
    if "train" not in data:
        raise ValueError(f"{where} has no data.train, the file with the training samples.")
    if "test" in data and "holdout" in data:
        raise ValueError(f"{where} has both data.test and data.holdout; leave out one of them.")
    cluster = _cluster(reader, words, sections)
    kind, parameters = _model(reader, sections["model"], data, estimators_of(cluster))
    memory = limits.get("memory")
    if memory is not None:
        reader.value("limits", "memory", lambda: parse_memory(memory))
    test = reader.word("data", "test", data)
    return Job(
        train=_absolute(reader.required_word("data", "train", data), folder),
        test=None if test is None else _absolute(test, folder),
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
        seconds=reader.seconds("limits", "time", limits),
        checkpoint_seconds=reader.seconds("checkpoint", "every", sections["checkpoint"]) or 30.0,
        report=reader.boolean("output", "report", sections["output"], True),
        label=False if _has_no_labels(reader, data, kind) else reader.column("data", "label", data),
        id=reader.column("data", "id", data),
        cluster=cluster,
        sample_weight=reader.column("data", "sample_weight", data),
        first_index=_first_index(reader, data),
    )


OF_FORMATS = "format", "label", "id", "sample_weight", "first_index"
"""Keys that say how to read files that are not in HDF5."""
_SECTIONS: dict[str, tuple[str, ...] | None] = {
    "data": (
        "train",
        "test",
        "holdout",
        "seed",
        "format",
        "label",
        "id",
        "sample_weight",
        "first_index",
        "standardize",
    ),
    "model": None,
    "search": None,
    "limits": ("memory", "threads", "time"),
    "cluster": ("scheduler", "local", "shards"),
    "checkpoint": ("every",),
    "output": ("report",),
}


def _first_index(reader: SectionReader, data: Mapping[str, Any]) -> int | None:
    value = data.get("first_index", "auto")
    if isinstance(value, bool) or value not in ("auto", 0, 1):
        raise reader.wrong("data", "first_index", '0, 1 or "auto"', value)
    return None if value == "auto" else value


def _absolute(path: str, folder: Path) -> str:
    return str((folder / Path(path).expanduser()).resolve())


def _cluster(reader: SectionReader, words: Mapping[str, Any], sections: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the keys of the cluster, None without that section."""
    section = sections["cluster"]
    if "cluster" not in words:
        return None
    if ("scheduler" in section) == ("local" in section):
        raise ValueError(f"{reader.where}: [cluster] needs scheduler, an address, or local = {{workers = 2}}.")
    for name in ("holdout", "search"):
        if name in sections["data"] or sections.get(name):
            raise ValueError(
                f"{reader.where}: [cluster] goes with data.test, not with {name}: workers read whole files."
            )
    found: dict[str, Any] = {"shards": reader.whole("cluster", "shards", section, None, least=1)}
    if "scheduler" in section:
        return found | {"scheduler": reader.required_word("cluster", "scheduler", section)}
    local = section["local"]
    if not isinstance(local, Mapping):
        raise reader.wrong("cluster", "local", "a table such as {workers = 2}", local)
    reader.refuse_unknown("cluster.local", local, ("workers", "threads"))
    usual = {"workers": 2, "threads": 1}
    return found | {
        "local": {name: reader.whole("cluster.local", name, local, n, least=1) for name, n in usual.items()}
    }


def _model(
    reader: SectionReader, section: Mapping[str, Any], data: Mapping[str, Any], kinds: Mapping[str, type]
) -> tuple[str, dict[str, Any]]:
    """Return the kind of the model and its parameters."""
    kind = reader.one_of("model", "kind", section, tuple(kinds)) or ("svc" if "svc" in kinds else "linear")
    parameters = {name: value for name, value in section.items() if name != "kind"}
    if "standardize" in data:
        parameters["standardize"] = reader.boolean("data", "standardize", data, False)
    reader.refuse_unknown("model", parameters, _parameters_of(kinds[kind]), f" of kind {kind!r}")
    return kind, parameters


def learns_labels(kind: str) -> bool:
    """Return whether a kind of model learns labels; the one-class SVM does not."""
    return not is_outlier_detector(ESTIMATORS[kind]())


def _has_no_labels(reader: SectionReader, data: Mapping[str, Any], kind: str) -> bool:
    if data.get("label") is not False:
        return False
    if learns_labels(kind):
        raise ValueError(f"{reader.where}: data.label = false, but a model of kind {kind!r} learns labels.")
    return True


def _parameters_of(kind: type) -> tuple[str, ...]:
    """Return the names of the parameters that [model] may set; other keys of the job set the rest."""
    return tuple(name for name in signature(kind).parameters if name not in _NOT_OF_A_JOB)


def _grid(reader: SectionReader, section: Mapping[str, Any], kind: str) -> dict[str, list]:
    grid = {name: values for name, values in section.items() if name not in _SEARCH_KEYS}
    reader.refuse_unknown("search", grid, (*_parameters_of(ESTIMATORS[kind]), *_SEARCH_KEYS), f" of kind {kind!r}")
    if section and not grid:
        raise ValueError(f"{reader.where}: [search] has no parameter with values, such as C = [1, 10].")
    for name, values in grid.items():
        if not isinstance(values, list) or not values:
            raise ValueError(f"{reader.where}: search.{name} must be a list of values to try, found {values!r}.")
    return grid
