"""Training jobs: a TOML file whose keys are all checked, and command-line flags that override keys."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from sklearn.base import BaseEstimator, is_classifier, is_outlier_detector

from fastsvm.estimators.fitting.validation import Rule, boolean, number
from fastsvm.estimators.registry import ESTIMATORS
from fastsvm.estimators.search.calibration import METHODS
from fastsvm.estimators.search.walk import AXES, is_auto
from fastsvm.formats import FORMATS
from fastsvm.jobs.inputs import OPTIONS, Json
from fastsvm.memory import parse_memory
from fastsvm.messages import nearest

_NOT_OF_A_JOB = {"memory", "max_time", "verbose", "random_state", "warm_start", "n_jobs", "client", "n_shards"}
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|min|[smhd])"

_Section = Mapping[str, object]


class Job(NamedTuple):
    """A job with checked keys and values."""

    train: str  # It is the absolute path of the training samples.
    test: str | None = None  # It is the absolute path of the test samples.
    format: str | None = None
    holdout: float = 0.0  # This share of the samples of `train` is held out for the test.
    seed: int = 0  # It draws the held-out samples, and is that of the estimator.
    kind: str = "svc"  # It is a key of `fastsvm.estimators.registry.ESTIMATORS`.
    parameters: Mapping[str, object] = MappingProxyType({})
    # Values to compare are by parameter, or "auto", of which the search chooses them; without a search it is empty.
    grid: Mapping[str, list | str] = MappingProxyType({})
    folds: int = 5
    scoring: str | None = None  # It names a scorer of scikit-learn; None is the estimator's own score.
    memory: str | int | None = None  # It is the budget, as for the estimators; None is their default.
    threads: int | None = None  # None takes all.
    seconds: float | None = None  # The run has this limit of time; None sets no limit.
    checkpoint_seconds: float = 30.0  # Two checkpoints are so many seconds apart.
    report: bool = True  # It says whether `report.html` is written.
    label: str | int | bool | None = None
    id: str | int | None = None
    # It has "scheduler", an address, or "local", a mapping with "workers" and "threads"; and "shards".
    cluster: Json | None = None
    sample_weight: str | int | None = None
    first_index: int | None = None
    array: str | None = None
    probability: str | None = None  # It is the `method` of a `CalibratedClassifier`; None is for a model without.

    @property
    def listed(self) -> dict[str, list]:
        """Parameters with the values that are compared."""
        return {name: values for name, values in self.grid.items() if isinstance(values, list)}

    @property
    def chosen(self) -> list[str]:
        """Parameters whose values the search chooses."""
        return [name for name, values in self.grid.items() if is_auto(values)]

    def inputs(self) -> Json:
        """Return how to read files."""
        words = {name: getattr(self, name) for name in OPTIONS if name in self._fields}
        return words | {"last_label": learns_labels(self.kind)}


def learns_labels(kind: str) -> bool:
    """Return whether a kind of model learns labels; the one-class SVM does not."""
    return not is_outlier_detector(ESTIMATORS[kind]())


def estimators_of(cluster: Json | None) -> Mapping[str, type[BaseEstimator]]:
    """Return the estimators that a job may name, those on a cluster if it has one; they need Dask."""
    if cluster is None:
        return ESTIMATORS
    try:
        from fastsvm.dask import LinearSVC, LinearSVR
    except ImportError as error:
        raise ValueError(f"A job with [cluster]: {error}") from error
    return {"linear": LinearSVC, "linear-regressor": LinearSVR}


# --- what values must be -----------------------------------------------------------------------------------------


def parse_seconds(text: str | float) -> float:
    """Return a time in seconds, of a number or of a text with units such as "1.5h"; ValueError says what is wrong.

    >>> parse_seconds("1h 30min")
    5400.0
    """
    if isinstance(text, str) and re.fullmatch(rf"({_TIME}\s*)+", text.strip()):
        total = sum(float(amount) * _UNITS[unit] for amount, unit in re.findall(_TIME, text))
    elif isinstance(text, (int, float)) and not isinstance(text, bool):
        total = float(text)
    else:
        raise ValueError(f"a time must be seconds or numbers with ms, s, min, h or d ('1h 30min'), found {text!r}.")
    if not 0 < total < float("inf"):
        raise ValueError(f"a time must be positive, found {text!r}.")
    return total


_WORD = Rule(lambda value: isinstance(value, str) and value != "", "a word")
_COLUMN = Rule(
    lambda value: isinstance(value, (str, int)) and not isinstance(value, bool) and value != "",
    "the name or the number of a column",
)
_BOOLEAN = Rule(boolean.holds, "true or false")
_COUNT = number(integral=True, least=1)
_SECTIONS: dict[str, dict[str, Rule | Callable] | None] = {
    "data": {
        "train": _WORD,
        "test": _WORD,
        "holdout": number(least=0, below=1),
        "seed": number(integral=True, least=0),
        "format": _WORD,
        "label": Rule(lambda value: value is False or _COLUMN.holds(value), _COLUMN.words),
        "array": _WORD,
        "id": _COLUMN,
        "sample_weight": _COLUMN,
        "first_index": Rule(lambda value: not isinstance(value, bool) and value in ("auto", 0, 1), '0, 1 or "auto"'),
        "standardize": _BOOLEAN,
    },
    "model": None,
    "search": None,
    "limits": {"memory": parse_memory, "threads": _COUNT, "time": parse_seconds},
    "cluster": {
        "scheduler": _WORD,
        "local": Rule(lambda value: isinstance(value, Mapping), "a table such as {workers = 2}"),
        "shards": _COUNT,
    },
    "checkpoint": {"every": parse_seconds},
    "output": {"report": _BOOLEAN},
}
_SEARCH = {"folds": number(integral=True, least=2), "scoring": _WORD}
_LOCAL_CLUSTER = {"workers": 2, "threads": 1}  # numbers that it has by default


# --- from the file to the job ------------------------------------------------------------------------------------


def read_job(path: str | Path, flags: Sequence[str] = (), scheduler: str | None = None) -> Job:
    """Return the job in a TOML file, with keys that flags such as `model.C=10` and the address `scheduler` override."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no job file {path}.")
    try:
        words = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # editors of Windows begin a file by a mark
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a TOML file: {error}.") from error
    for flag in flags:
        _override(words, flag)
    if scheduler is not None:
        words["cluster"] = {**words.get("cluster", {}), "scheduler": scheduler}
        words["cluster"].pop("local", None)
    try:
        return job_of(words, path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _override(words: Json, flag: str) -> None:
    """Override a key by a flag `section.key=value` in TOML's spelling; another form raises ValueError."""
    name, equals, text = flag.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and section and key):
        raise ValueError(f"A flag must be section.key=value, for example model.C=10; found {flag!r}.")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a word without quotes
    if not isinstance(words.setdefault(section, {}), dict):
        raise ValueError(f"{section} must be a section [{section}], found {words[section]!r}.")
    words[section][key] = value


def job_of(words: _Section, folder: Path) -> Job:
    """Return the job that some sections of keys describe; relative paths begin at `folder`."""
    _refuse_unknown("", words, _SECTIONS)
    sections = {name: _section(words, name) for name in _SECTIONS}
    data, limits, search = sections["data"], sections["limits"], sections["search"]
    if "train" not in data:
        raise ValueError("there is no data.train, the file with the training samples.")
    if "test" in data and "holdout" in data:
        raise ValueError("there are both data.test and data.holdout; leave out one of them.")
    cluster = _cluster(sections) if "cluster" in words else None
    kinds = estimators_of(cluster)
    kind = _one_of("model", "kind", sections["model"].pop("kind", "svc" if "svc" in kinds else "linear"), kinds)
    parameters = sections["model"]
    if "standardize" in data:
        parameters["standardize"] = data.pop("standardize")
    if "probability" in parameters and is_classifier(ESTIMATORS[kind]()):
        data["probability"] = _one_of("model", "probability", parameters.pop("probability"), METHODS)
        if cluster is not None:
            raise ValueError("[cluster] has no probabilities. Leave out model.probability.")
    _refuse_unknown("model", parameters, _parameters_of(kinds[kind]), f" of kind {kind!r}")
    grid = _grid(search, kind)
    if "format" in data:
        _one_of("data", "format", data["format"], FORMATS)
    if data.get("label") is False and learns_labels(kind):
        raise ValueError(f"data.label = false, but a model of kind {kind!r} learns labels.")
    if data.get("first_index") == "auto":
        del data["first_index"]
    for name in data.keys() & {"train", "test"}:
        data[name] = str((folder / Path(data[name]).expanduser()).resolve())
    if "holdout" in data:
        data["holdout"] = float(data["holdout"])
    if "time" in limits:
        limits["seconds"] = parse_seconds(limits.pop("time"))
    if "every" in sections["checkpoint"]:
        limits["checkpoint_seconds"] = parse_seconds(sections["checkpoint"]["every"])
    of_search = {name: search[name] for name in _SEARCH.keys() & search.keys()}
    more = data | limits | of_search | sections["output"]
    return Job(kind=kind, parameters=parameters, grid=grid, cluster=cluster, **more)


def _parameters_of(kind: type) -> list[str]:
    """Return the names of the parameters that [model] may set; other keys of the job set the rest."""
    return [name for name in signature(kind).parameters if name not in _NOT_OF_A_JOB]


def _section(words: _Section, name: str) -> Json:
    """Return a section, whose keys are known and whose values are checked; it is empty if it is absent."""
    section, rules = words.get(name, {}), _SECTIONS[name]
    if not isinstance(section, Mapping):
        raise ValueError(f"{name} must be a section [{name}], found {section!r}.")
    if rules is not None:
        _refuse_unknown(name, section, rules)
        _check(name, section, rules)
    return dict(section)


def _refuse_unknown(section: str, keys: Iterable[str], valid: Iterable[str], more: str = "") -> None:
    """Raise ValueError for a key that is not valid."""
    valid = list(valid)
    for key in keys:
        if key not in valid:
            near = nearest(key, valid)
            meant = f" Did you mean {near!r}?" if near else f" Choose from {', '.join(valid)}."
            what = f"{section}.{key} is not a key{more}" if section else f"[{key}] is not a section"
            raise ValueError(f"{what}.{meant}")


def _check(section: str, words: _Section, rules: Mapping[str, Rule | Callable]) -> None:
    """Raise ValueError for the first value that breaks the rule of its key, or that its function refuses."""
    for key, rule in rules.items():
        if key not in words:
            continue
        if not isinstance(rule, Rule):
            try:
                rule(words[key])
            except (ValueError, TypeError) as error:
                raise ValueError(f"{section}.{key}: {error}") from error
        elif not rule.holds(words[key]):
            raise _wrong(section, key, rule.words, words[key])


def _wrong(section: str, key: str, wanted: object, value: object) -> ValueError:
    return ValueError(f"{section}.{key} must be {wanted}, found {value!r}.")


def _one_of(section: str, key: str, word: object, words: Iterable[str]) -> str:
    """Return one of some words."""
    words = list(words)
    if not isinstance(word, str) or not word:
        raise _wrong(section, key, _WORD.words, word)
    if word not in words:
        near = nearest(word, words)
        raise _wrong(section, key, f"one of {', '.join(words)}{f' ({near!r}?)' if near else ''}", word)
    return word


def _cluster(sections: Mapping[str, Json]) -> Json:
    """Return the keys of the cluster."""
    section = sections["cluster"]
    if ("scheduler" in section) == ("local" in section):
        raise ValueError("[cluster] needs scheduler, an address, or local = {workers = 2}.")
    for name in ("holdout", "search"):
        if name in sections["data"] or sections.get(name):
            raise ValueError(f"[cluster] goes with data.test, not with {name}: workers read whole files.")
    if "local" in section:
        _refuse_unknown("cluster.local", section["local"], _LOCAL_CLUSTER)
        _check("cluster.local", section["local"], dict.fromkeys(_LOCAL_CLUSTER, _COUNT))
        section["local"] = _LOCAL_CLUSTER | section["local"]
    return {"shards": None} | section


def _grid(section: Json, kind: str) -> dict[str, list | str]:
    """Return the values of each parameter that the search compares."""
    grid = {name: values for name, values in section.items() if name not in _SEARCH}
    _refuse_unknown("search", grid, (*_parameters_of(ESTIMATORS[kind]), *_SEARCH), f" of kind {kind!r}")
    _check("search", section, _SEARCH)
    if section and not grid:
        raise ValueError('[search] has no parameter with values, such as C = [1, 10] or C = "auto".')
    for name, values in grid.items():
        can_be_chosen = is_auto(values) and (name in AXES or name == "standardize")
        if not can_be_chosen and (not isinstance(values, list) or not values):
            also = ', or "auto"' if name in AXES else ""
            raise ValueError(f"search.{name} must be a list of values to try{also}, found {values!r}.")
    if any(map(is_auto, grid.values())) and isinstance(grid.get("class_weight"), list):
        raise ValueError('[search] lists class_weight, which goes with lists of all other values, not with "auto".')
    return grid
