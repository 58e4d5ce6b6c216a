"""Models that commands take: files of fastsvm, and the text of LIBSVM and LIBLINEAR."""

from pathlib import Path
from typing import Any

from fastsvm.estimators import SVCSearch
from fastsvm.exchange.model_text import is_libsvm_text, load_libsvm, save_libsvm
from fastsvm.persistence.model_file import is_model_file, load, save

__all__ = ["convert_model", "fitting_model", "is_model", "load_model"]


def is_model(path: str | Path) -> bool:
    """Return whether a file begins like a model."""
    return is_model_file(path) or is_libsvm_text(path)


def load_model(path: str | Path) -> Any:
    """Read a model.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no such file, or it is not a model or damaged.
    """
    return load_libsvm(path) if is_libsvm_text(path) else load(path)


def fitting_model(model: Any, path: str | Path, n_features: int) -> Any:
    """Return a model for samples with more features than its text mentions; other models as they are."""
    if n_features <= model.n_features_in_ or not is_libsvm_text(path):
        return model
    return load_libsvm(path, n_features=n_features)


def convert_model(
    source: str | Path, destination: str | Path, range_path: str | Path | None = None, n_features: int | None = None
) -> dict[str, Any]:
    """Write the text of a model of fastsvm, or a model of fastsvm from text.

    Parameters
    ----------
    source, destination : str or Path
        The file to read and the file to write.
    range_path : str or Path or None
        Range file to write, as for `save_libsvm`.
    n_features : int or None
        Number of features, as for `load_libsvm`.

    Returns
    -------
    dict
        Values for JSON, by name.

    Raises
    ------
    FileNotFoundError, TypeError, ValueError
        If there is no such file, or the model cannot be read or written.
    """
    is_text = is_libsvm_text(source)
    if is_text and range_path is not None:
        raise ValueError(f"A range file is written for a model of fastsvm with standardize=True; {source} is text.")
    if n_features is not None and not is_text:
        raise ValueError(f"{source} knows its number of features; only the text of a model does not.")
    model = load_libsvm(source, n_features=n_features) if is_text else load(source)
    if isinstance(model, SVCSearch):
        model = model.best_estimator_
    if is_text:
        save(model, destination)
    else:
        save_libsvm(model, destination, range_path=range_path)
    written = {} if range_path is None else {"range": str(range_path)}
    return {"file": str(destination), "estimator": type(model).__name__, "n_features": model.n_features_in_, **written}
