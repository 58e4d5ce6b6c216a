"""The columns of a table: which of them hold features, labels, identifiers and weights."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from fastsvm.formats.readers.stream import Header, Options, Rows, check_finite, check_weights
from fastsvm.tuning import current_tuning

LABELS = ("label", "labels", "target", "class", "y")
"""Usual names of a column of labels, in lower case."""
_WEIGHT, _PERHAPS_WEIGHTS = "sample_weight", ("weight", "weights", "sample_weights")
"""The name of a column of weights, and names that features may have, too."""
_COUNT = re.compile(r"-?\d+")  # on the command line, such a column is a position


class TableColumns(NamedTuple):
    """The columns of a table, by what they hold; positions are numbers from 0."""

    names: tuple[str, ...] | None  # They are of all columns; None if the table has no names.
    features: tuple[int, ...]  # The features are stored in this order.
    label: int | None
    id: int | None
    why: str  # It tells the user which column holds the labels and why.
    weight: int | None = None
    notes: tuple[str, ...] = ()  # They tell the user about the features, the weights and what is left out.

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features; None if the table has none, or two features share one."""
        names = _names_of(self.names, self.features)
        return names if names and not _repeated(names) else None

    def header(self, dtype: np.dtype, y_dtype: np.dtype, n_samples: int | None, notes: tuple[str, ...]) -> Header:
        """Return the header of the table; `y_dtype` is the type of the labels if there are some."""
        has_labels = self.label is not None
        return Header(
            len(self.features),
            dtype,
            y_dtype if has_labels else None,
            n_samples=n_samples,
            feature_names=self.feature_names,
            label_name=self._name(self.label),
            id_name=self._name(self.id),
            label=self.why,
            notes=notes + self.notes,
        )

    def _name(self, position: int | None) -> str | None:
        return None if position is None or self.names is None else self.names[position] or None

    def rows(
        self,
        n_rows: int,
        header: Header,
        values: Callable[[int, np.dtype | None], np.ndarray],
        path: Path,
        first: int,
    ) -> Rows:
        """Return rows from what `values` returns of each column, for a type or, of identifiers, None for their own."""
        X = np.empty((n_rows, header.n_features), header.dtype)
        with np.errstate(over="ignore"):
            for place, k in enumerate(self.features):
                X[:, place] = values(k, header.dtype)
        check_finite(X, path, first)
        y, more = None, {}
        if self.label is not None:
            y = values(self.label, header.y_dtype).astype(header.y_dtype, copy=False)
            if y.dtype.kind == "f" and not np.isfinite(y).all():
                row = first + int(np.flatnonzero(~np.isfinite(y))[0])
                raise ValueError(f"{path}: the label of row {row} is not a finite number.")
        if self.id is not None:
            more["id"] = values(self.id, None)
        if self.weight is not None:
            more["sample_weight"] = values(self.weight, np.dtype(np.float64)).astype(np.float64, copy=False)
            check_weights(more["sample_weight"], f"{path}, {self.title(self.weight)}", first)
        return Rows(X, y, more)

    def without_labels(self, n_missing: int, n_rows: int) -> "TableColumns":
        """Return the columns without that of the labels, which some rows do not have."""
        title = self.title(cast(int, self.label))
        return self._replace(label=None, why=f"none, {title} has no value in {n_missing:,} of {n_rows:,} rows")

    def title(self, position: int) -> str:
        """Return the name of a column for messages."""
        return _title(self.names, position)


def _names_of(names: tuple[str, ...] | None, features: tuple[int, ...]) -> tuple[str, ...]:
    """Return the names of features; none if the table has none."""
    return () if names is None else tuple(names[k] for k in features)


def _notes(columns: TableColumns, of_model: bool) -> tuple[str, ...]:
    """Return what the user should know about columns; features `of_model` are those of a model."""
    notes, names = [], _names_of(columns.names, columns.features)
    if repeated := _repeated(names):  # later files could not find them again
        named = _listed(list(map(repr, repeated)))
        notes.append(f"Several features are named {named}: no names are kept, and columns count by their order.")
    if columns.weight is not None:
        notes.append(f"{columns.title(columns.weight)} holds the weights of the rows.")
    for k, name in zip(columns.features, () if of_model else names, strict=False):
        if name.lower() in _PERHAPS_WEIGHTS:
            what = f"If it holds weights of the rows, pass sample_weight={name!r}."
            notes.append(f"{columns.title(k)} is used as a feature. {what}")
    return tuple(notes)


def _repeated(names: tuple[str, ...]) -> list[str]:
    """Return the names that occur more than once."""
    return [name for name, count in Counter(names).items() if count > 1]


def _title(names: tuple[str, ...] | None, position: int) -> str:
    name = f" ({names[position]})" if names is not None and names[position] else ""
    return f"column {position + 1}{name}"


def is_name(column: object) -> bool:
    """Return whether a column is given by its name: a text that is not a whole number."""
    return isinstance(column, str) and not _COUNT.fullmatch(column)


def choose_columns(names: tuple[str, ...] | None, width: int, options: Options, path: Path) -> TableColumns:
    """Return what the columns of a table hold; `names` is None if it has no names, `width` the number of columns."""
    table = _Table(names, width, path)
    of_model = table.features_of_model(options.feature_names or ())
    is_known = of_model and (names or ()).count(options.model_id or "") == 1
    wanted = options.model_id if options.id is None and is_known else options.id
    id = None if wanted is None else table.position(wanted, "id")
    if options.sample_weight is not None:
        weight: int | None = table.position(options.sample_weight, "sample_weight")
    else:
        named = {id} if options.label in (None, False) else {id, table.position(options.label, "label")}
        usual = [k for k in table.named((_WEIGHT,)) if k not in of_model and k not in named]
        weight = usual[0] if len(usual) == 1 else None
    others = tuple(k for k in range(width) if k not in (id, weight) and k not in of_model)
    label, why = _label(table, others, options, 0 if of_model else options.model_features)
    roles = {"label": label, "id": id, "sample_weight": weight}
    for (one, at), (other, beside) in combinations(roles.items(), 2):
        if at is not None and at == beside:
            raise ValueError(f"{path}: {_title(table.names, at)} cannot be both {one} and {other}.")
    rest = tuple(k for k in others if k != label)
    if not of_model and not rest:
        raise ValueError(
            f"{path} has one column, so no features: its first line has no comma, semicolon, tab or | "
            "between names or numbers. If it is a feature, pass label=False."
        )
    columns = TableColumns(names, of_model or rest, label, id, why, weight)
    extra = set(rest) - set(columns.features)
    titles = _listed(list(map(columns.title, sorted(extra))))
    if extra and options.strict:
        raise ValueError(
            f"{path} has columns that are no features of the model: {titles}. Drop them, or leave out strict."
        )
    notes = (f"Left out, for they are no features of the model: {titles}.",) if extra else ()
    return columns._replace(notes=_notes(columns, bool(of_model)) + notes)


def _label(
    table: "_Table", columns: tuple[int, ...], options: Options, n_expected: int | None
) -> tuple[int | None, str]:
    """Return the column of the labels, which is one of `columns` unless asked for, and the reason."""
    if options.label is False:
        return None, "none, as asked"
    if options.label is not None:
        position = table.position(options.label, "label")
        return position, f"{_title(table.names, position)}, as asked"
    if len(columns) == n_expected:  # which is 0 if these are not features of the model
        return None, "none, there are only features of the model"
    of_model = [k for k in columns if table.names is not None and table.names[k] == options.model_label]
    if len(of_model) == 1:
        return of_model[0], f"{_title(table.names, of_model[0])}, as in the training"
    usual = [k for k in table.named(LABELS) if k in columns]
    if len(usual) > 1:
        candidates = " and ".join(_title(table.names, k) for k in usual)
        raise ValueError(f"{table.path}: {candidates} may hold the labels. Name one with label=.")
    if usual:
        return usual[0], f"{_title(table.names, usual[0])}, by its name"
    if n_expected == 0 and (len(columns) > 1 or options.model_label is not None):
        return None, "none"
    if options.last_label is False:
        return None, "none, no column has their usual name; all columns are features unless --label names one"
    which = "only one that is no feature" if n_expected == 0 else "last"
    return columns[-1], f"{_title(table.names, columns[-1])}, the {which}"


class _Table(NamedTuple):
    """A table whose columns are looked up."""

    names: tuple[str, ...] | None
    width: int
    path: Path

    def named(self, names: tuple[str, ...]) -> list[int]:
        """Return the positions of the columns with some names, in lower case."""
        return [k for k, name in enumerate(self.names or ()) if name.lower() in names]

    def position(self, column: str | int | Path, option: str) -> int:
        """Return the position of a column that is given by its name or position."""
        if is_name(column):
            names = self.names or ()
            if names.count(column) != 1:
                problem = "two such columns" if column in names else f"the columns {_listed(names)}"
                raise ValueError(f"{self.path} must have one column {column!r}; its first line has {problem}.")
            return names.index(column)
        position = int(str(column))
        if not -self.width <= position < self.width:
            raise ValueError(f"{option}={position} is not a column of {self.path}, which has {self.width} columns.")
        return position % self.width

    def features_of_model(self, features: tuple[str, ...]) -> tuple[int, ...]:
        """Return the positions of a model's features; none if the table has no names or does not know any of them."""
        names = self.names or ()
        if not set(features) & set(names):
            return ()
        missing = [name for name in features if names.count(name) != 1]
        if missing:
            problem = "two columns" if missing[0] in names else "no column"
            more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
            raise ValueError(f"{self.path} has {problem} {missing[0]!r}{more}, a feature of the model.")
        return tuple(names.index(name) for name in features)


def _listed(names: Sequence[str]) -> str:
    """Return the first of some names, for messages."""
    most = current_tuning().limits.shown
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
