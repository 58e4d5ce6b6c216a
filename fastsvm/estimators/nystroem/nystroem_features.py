"""Nyström features as a transformer, for other models."""

from collections.abc import Iterator
from dataclasses import KW_ONLY
from os import PathLike
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fastsvm._compiled.threads import Pool, one_threaded_blas
from fastsvm.estimators.fitting.documentation import Learning, documented, documented_by, parametrised
from fastsvm.estimators.fitting.predictions import Answer
from fastsvm.estimators.fitting.progress import shown
from fastsvm.estimators.fitting.session import drafted, of_one_model
from fastsvm.estimators.fitting.validation import (
    Column,
    Samples,
    check_parameters,
    check_rows,
    check_training_set,
    forget,
)
from fastsvm.estimators.nystroem.landmarks import LANDMARK_RULES, FeatureMap, LandmarkEstimator, choose
from fastsvm.files.atomic_file import atomic_write
from fastsvm.formats.readers.stream import Header, Rows
from fastsvm.formats.writer import write
from fastsvm.low_rank import NystroemMap
from fastsvm.memory import parse_memory, threads_within
from fastsvm.sources import Block, Source, check_finite, columns_of, of_open_file


@documented
@parametrised
class NystroemFeatures(LandmarkEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features of samples whose dot products approximate a kernel, from memory or from file to file.

    Names are those of `sklearn.kernel_approximation.Nystroem` where it has them. The features are those that
    `NystroemSVC` learns on: coordinates along the principal directions of the landmarks, the largest first.

    Parameters
    ----------
    landmarks : {"uniform", "rpcholesky"} or array-like of shape (n_landmarks, n_features), default="uniform"
        Landmarks are samples, drawn without replacement, or by randomly pivoted Cholesky
        factorisation among 16 times as many as landmarks, or fewer if the memory asks for it. An array holds the
        landmarks themselves; `n_components` is ignored.
    memory : "auto", int or str, default="auto"
        Memory that `fit` may use: bytes, or a size such as "2GB". "auto" is half of what is available. It bounds the
        number of landmarks.
    verbose : bool, default=False
        Show progress of `transform_to_file`, on a terminal.

    Attributes
    ----------
    normalization_ : ndarray of float64, shape (rank, n_landmarks)
        What kernel values with the landmarks are multiplied with.

    References
    ----------
    Williams and Seeger (2001), Using the Nyström method to speed up kernel machines, NIPS. Chen, Epperly, Tropp and
    Webber (2024), Randomly pivoted Cholesky: practical approximation of a kernel matrix with few entry evaluations,
    Communications on Pure and Applied Mathematics 78.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from fastsvm import NystroemFeatures
    >>> X, y = make_moons(500, noise=0.2, random_state=0)
    >>> model = make_pipeline(NystroemFeatures(gamma=1.0, random_state=0), LogisticRegression(C=100)).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _: KW_ONLY
    verbose: bool = False

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse rows are taken, and float32 stays."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @documented_by(Learning)
    @drafted
    @one_threaded_blas
    def fit(self, X: Samples, y: Column = None) -> "NystroemFeatures":
        """Choose landmarks.

        Parameters
        ----------
        y : None
            Ignored.

        Raises
        ------
        ValueError
            If the kernel is not positive semi-definite.
        """
        check_parameters(self, LANDMARK_RULES)
        self._check_landmark_kernel()
        budget = parse_memory(self.memory)
        forget(self)
        data = check_training_set(self, X, None, None, has_targets=False)
        source, rng = self._standardized(data.source, data.weight), check_random_state(self.random_state)
        with Pool.open(most=threads_within(self.memory)) as pool:
            chosen = choose(self, source, np.flatnonzero(data.weight > 0), rng, budget, pool)
        self.__dict__.update(self._landmark_attributes(chosen, None))
        self.normalization_ = chosen.features.map.whitening
        return self

    @property
    def _n_features_out(self) -> int:
        return self.rank_

    @documented_by(Answer)
    @one_threaded_blas
    @of_one_model
    def transform(self, X: Samples) -> np.ndarray:
        """Return the new features of samples.

        Returns
        -------
        ndarray of shape (n_samples, rank)
            In float64 if X is, or else in float32.
        """
        check_is_fitted(self, "normalization_")
        source = check_rows(self, X, reset=False)
        features = np.empty((len(source), self.rank_), np.float64 if source.dtype == np.float64 else np.float32)
        for start, part in self._blocks(source, source.blocks(), features.dtype):
            features[start : start + len(part)] = part
        return features

    @one_threaded_blas
    def transform_to_file(self, X: Samples, path: str | PathLike, dtype: str = "float32") -> None:
        """Write the new features of samples to an HDF5 file, block by block, with labels and weights if X has them.

        The write is atomic: after an error, or if the disk is full, an older file is still there.

        Parameters
        ----------
        X : as for `fit`, shape (n_samples, n_features)
            Samples, such as those of a file that `open_hdf5` opened.
        path : str or Path
            The file to write, for `open_hdf5`. An existing file is replaced.
        dtype : {"float32", "float16", "float64"}, default="float32"
            Type in which features are stored.

        Raises
        ------
        ValueError
            If X does not have the features of the fit, or is not finite, or there is no such type.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import os, tempfile
        >>> import h5py, numpy as np
        >>> import fastsvm
        >>> folder = tempfile.mkdtemp()
        >>> with h5py.File(os.path.join(folder, "rows.h5"), "w") as file:
        ...     file["X"], file["y"] = np.eye(20), np.arange(20) % 2
        >>> with fastsvm.open_hdf5(os.path.join(folder, "rows.h5")) as data:
        ...     fastsvm.NystroemFeatures().fit(data).transform_to_file(data, os.path.join(folder, "features.h5"))
        >>> with fastsvm.open_hdf5(os.path.join(folder, "features.h5")) as data:
        ...     data.shape, data.y[:3].tolist()
        ((20, 20), [0, 1, 0])
        """
        check_is_fitted(self, "normalization_")
        if dtype not in ("float16", "float32", "float64"):
            raise ValueError(f"dtype must be 'float16', 'float32' or 'float64', found {dtype!r}.")
        X = of_open_file(X)
        source, kind = check_rows(self, X, reset=False), np.dtype(dtype)
        y, weight, names, _ = columns_of(X)
        y = y.astype(str) if y is not None and y.dtype.kind == "O" else y
        y_dtype, classes = None if y is None else y.dtype, None if names is None else tuple(names)
        header = Header(self.rank_, kind, y_dtype, class_names=classes, n_samples=len(source))

        def rows() -> Iterator[Rows]:
            for start, features in self._blocks(source, shown(source.blocks(), len(source), "features", self), kind):
                part = slice(start, start + len(features))
                columns = {} if weight is None else {"sample_weight": weight[part]}
                yield Rows(features, None if y is None else y[part], columns)

        with atomic_write(Path(path)) as part:
            write(part, header, rows())

    def _blocks(
        self, source: Source, blocks: Iterator[tuple[int, Block]], dtype: np.dtype
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the features of each block of a source."""
        map_ = NystroemMap(np.empty((0, 0)), self.normalization_)
        with Pool.open(most=threads_within(self.memory)) as pool:
            features = FeatureMap(self, self.components_, source, pool, map_)
            for start, block in blocks:
                check_finite(block, start)
                values = np.empty((block.shape[0], self.rank_), dtype)
                features.write(block, values, by_row=True)
                yield start, values
