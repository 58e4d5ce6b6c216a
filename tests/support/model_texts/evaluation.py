"""The decision values of a model's text, computed in the slowest way: as svm_predict_values and predict_values do."""

from itertools import combinations

import numpy as np

KERNELS = {
    "linear": lambda x, z, p: x @ z,
    "polynomial": lambda x, z, p: (p["gamma"] * (x @ z) + p["coef0"]) ** p["degree"],
    "rbf": lambda x, z, p: np.exp(-p["gamma"] * ((x - z) ** 2).sum()),
    "sigmoid": lambda x, z, p: np.tanh(p["gamma"] * (x @ z) + p["coef0"]),
}


def header(text, end):
    """Return the key words with their words, and the lines after `end`."""
    lines = text.splitlines()
    place = lines.index(end)
    return {line.split()[0]: line.split()[1:] for line in lines[:place]}, lines[place + 1 :]


def libsvm_decisions(text, X):
    """Return labels and the decision values of pairs (one column without labels), in the order of the text."""
    words, lines = header(text, "SV")
    n_rows = int(words["nr_class"][0]) - 1
    parameters = {name: float(words[name][0]) for name in ("degree", "gamma", "coef0") if name in words}
    coef = np.array([line.split()[:n_rows] for line in lines], float).T
    vectors = [[pair.split(":") for pair in line.split()[n_rows:]] for line in lines]
    values = np.zeros((len(X), len(lines)))
    for column, pairs in enumerate(vectors):
        if words["kernel_type"] == ["precomputed"]:
            values[:, column] = X[:, int(pairs[0][1]) - 1]
            continue
        z = np.zeros(X.shape[1])
        for index, value in pairs:
            z[int(index) - 1] = float(value)
        values[:, column] = [KERNELS[words["kernel_type"][0]](x, z, parameters) for x in X]
    rho = np.array(words["rho"], float)
    if "label" not in words:
        return None, values @ coef.T - rho
    stop = np.cumsum([int(count) for count in words["nr_sv"]])
    of_class = [slice(end - int(count), end) for end, count in zip(stop, words["nr_sv"], strict=True)]
    found = [
        values[:, of_class[i]] @ coef[j - 1, of_class[i]] + values[:, of_class[j]] @ coef[i, of_class[j]]
        for i, j in combinations(range(n_rows + 1), 2)
    ]
    return [int(label) for label in words["label"]], np.array(found).T - rho


def liblinear_decisions(text, X):
    """Return labels and scores, in the order of the text."""
    words, lines = header(text, "w")
    weights, bias = np.array([line.split() for line in lines], float), float(words["bias"][0])
    if bias >= 0:
        X = np.hstack([X, np.full((len(X), 1), bias)])
    return [int(label) for label in words.get("label", [])], X @ weights - float(words.get("rho", [0.0])[0])


def sorted_pairs(labels, decisions):
    """Return decisions of pairs of classes in the order of sorted labels, positive for the first class."""
    columns = dict(zip(combinations(labels, 2), decisions.T, strict=True))
    pairs = combinations(sorted(labels), 2)
    return np.array([columns[pair] if pair in columns else -columns[pair[::-1]] for pair in pairs]).T
