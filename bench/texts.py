"""Wide sparse rows: functions of installed Python packages as words, and words drawn by Zipf's law.

The source code of functions is text that every machine has. Two machines have the same samples if they have the same
versions of Python, NumPy, SciPy and scikit-learn.
"""

import ast
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from bench.harness.data import Data

__all__ = ["functions", "words"]

_LEAST = 200  # characters of a function


def functions(n: int, n_words: int | None = None, kinds: bool = False, once: bool = False) -> Data:
    """Return the words and pairs of words in functions, and whether the standard library has the function.

    Parameters
    ----------
    n : int
        Samples, of which the last quarter is the test set.
    n_words : int or None
        Keep the most frequent ones.
    kinds : bool
        Four classes, one for each package.
    once : bool
        Only whether a word occurs, in bytes, not how often and in how many samples.
    """
    texts, packages = zip(*_functions(n), strict=True)
    vectorizer = TfidfVectorizer(
        max_features=n_words,
        ngram_range=(1, 2),
        binary=once,
        use_idf=not once,
        norm=None if once else "l2",
    )
    X = vectorizer.fit_transform(texts)
    y = np.array(packages) if kinds else (np.array(packages) > 0).astype(np.int64)
    return _split(X.astype(np.uint8) if once else X, y)


def words(n: int, n_words: int, per_row: int) -> Data:
    """Return the numbers of words of which the k-th is drawn with a probability of about 1/k, and a noisy linear score.

    Parameters
    ----------
    n : int
        Samples, of which the last quarter is the test set.
    n_words : int
        Features.
    per_row : int
        Words of a sample, some of them the same.
    """
    rng = np.random.default_rng(8)
    drawn = np.minimum(n_words ** rng.random(n * per_row), n_words).astype(np.int64) - 1
    rows, columns = np.repeat(np.arange(n), per_row), rng.permutation(n_words)[drawn]
    X = sparse.csr_matrix((np.ones(n * per_row), (rows, columns)), shape=(n, n_words))
    score = X.sqrt() @ rng.normal(size=n_words)
    score += 0.5 * score.std() * rng.normal(size=n)
    return _split(X, (score > np.median(score)).astype(np.int64))


@cache
def _functions(n: int) -> list[tuple[str, int]]:
    """Return n functions of the files in a random order, each with the number of its package."""
    folders = [Path(sysconfig.get_paths()["stdlib"]), *(Path(one.__file__).parent for one in (np, scipy, sklearn))]
    files = [(path, k) for k, folder in enumerate(folders) for path in sorted(folder.rglob("*.py"))]
    found: dict[str, int] = {}
    for place in np.random.default_rng(0).permutation(len(files)):
        path, package = files[place]
        if "site-packages" not in path.relative_to(folders[package]).parts:
            found |= dict.fromkeys(_functions_of(path), package)
        if len(found) >= n:
            break
    rows = list(found.items())[:n]
    return [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]  # those of a file are not together


def _functions_of(path: Path) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # tests of parsers
        return
    lines = text.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            if len(body) >= _LEAST:
                yield body


def _split(X: sparse.csr_matrix, y: np.ndarray) -> Data:
    X = sparse.csr_matrix(X)
    X.sort_indices()
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn's SVC takes no others
    cut = X.shape[0] * 3 // 4
    return Data(X[:cut], y[:cut], X[cut:], y[cut:])
