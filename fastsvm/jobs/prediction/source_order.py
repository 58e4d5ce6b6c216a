"""Predictions in the order of the file that the samples were converted from, with the values that identify them.

Predictions are made in the order in which samples are stored, because that reads whole chunks. When all are made, they
are written once more, in the order of the source.
"""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np

from fastsvm.files.hdf5_output import hdf5_written
from fastsvm.jobs.prediction.layouts import CSVLayout
from fastsvm.progress_bar import progress_bar
from fastsvm.sources import HDF5Data
from fastsvm.tuning import current_tuning

__all__ = ["SourceOrder"]


class SourceOrder:
    """The order of the source of a data set, and the identifiers of its rows as they are stored in the data set.

    `order` has the positions of the samples in the data set, in the order of the source.
    """

    def __init__(self, order: np.ndarray, ids: np.ndarray | None) -> None:
        self.order, self.ids = order, ids

    @classmethod
    def of(cls, data: HDF5Data) -> "SourceOrder | None":
        """Return the order of the source of a data set; None if it is stored in that order, without identifiers."""
        rows, ids = data.source_row, data.ids
        if rows is None and ids is None:
            return None
        return cls(np.arange(len(data)) if rows is None else np.argsort(rows, kind="stable"), ids)

    def write(self, part: Path, output: Path, as_csv: bool) -> None:
        """Write the predictions of a part, contiguous HDF5, in the order of the source, as CSV or HDF5."""
        (self._write_csv if as_csv else self._write_hdf5)(output, *_stored(part))

    def _blocks(self, labels: np.ndarray, decisions: np.ndarray) -> Iterator[dict[str, np.ndarray]]:
        """Yield the columns of blocks of rows, in the order of the source."""
        step = current_tuning().jobs.block_rows
        with progress_bar(total=len(labels), desc="sort", unit="row", unit_scale=True) as bar:
            for start in range(0, len(labels), step):
                rows = self.order[start : start + step]
                found = {} if self.ids is None else {"id": self.ids[rows]}
                yield found | {"prediction": labels[rows], "decision": decisions[rows]}
                bar.update(len(rows))

    def _write_csv(self, output: Path, labels: np.ndarray, decisions: np.ndarray) -> None:
        layout = CSVLayout()
        with output.open("wb") as file:
            file.write(layout.header(decisions, with_ids=self.ids is not None))
            for block in self._blocks(labels, decisions):
                words = block["prediction"]
                words = np.strings.decode(words, "utf-8") if words.dtype.kind == "S" else words
                file.write(layout.lines(words, block["decision"], block.get("id")))

    def _write_hdf5(self, output: Path, labels: np.ndarray, decisions: np.ndarray) -> None:
        start = 0
        with hdf5_written(output) as file:
            for block in self._blocks(labels, decisions):
                for name, values in block.items():
                    if start == 0:
                        file.do(_create, name, len(labels), values)
                    file.do(_fill, name, start, values)
                start += len(block["prediction"])


def _stored(part: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictions and decision values of a file, mapped into memory."""

    def mapped(dataset: h5py.Dataset) -> np.ndarray:
        return np.memmap(part, dataset.dtype, "r", dataset.id.get_offset(), dataset.shape)

    with part.open("rb") as stream, h5py.File(stream, "r") as file:  # HDF5 would lock a path, and the part is locked
        return mapped(file["prediction"]), mapped(file["decision"])


def _create(file: h5py.File, name: str, n_rows: int, values: np.ndarray) -> None:
    kinds = {"U": h5py.string_dtype(), "S": h5py.string_dtype("utf-8", max(1, values.dtype.itemsize))}
    file.create_dataset(name, (n_rows, *values.shape[1:]), kinds.get(values.dtype.kind, values.dtype))


def _fill(file: h5py.File, name: str, start: int, values: np.ndarray) -> None:
    file[name][start : start + len(values)] = values.astype(object) if values.dtype.kind == "U" else values
