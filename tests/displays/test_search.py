"""The map of a search."""

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from fastsvm import SVC, SVCSearch
from fastsvm.displays import SearchDisplay


@pytest.fixture(scope="module")
def moons():
    return make_moons(200, noise=0.3, random_state=0)


def test_a_walk(moons):
    search = SVCSearch(SVC(), cv=3).fit(*moons)
    display = SearchDisplay.from_search(search)
    assert display.names == ("C", "gamma")
    np.testing.assert_array_equal(display.values[display.chosen], [search.best_params_[name] for name in display.names])
    assert display.scores[display.chosen] == search.best_score_ == display.scores.max()
    splits = [search.cv_results_[f"split{k}_test_score"][search.best_index_] for k in range(3)]
    assert display.error == pytest.approx(np.std(splits, ddof=1) / 3**0.5)
    assert len(display.cells_.get_offsets()) == len(search.cv_results_["params"])
    path = np.column_stack(display.path_.get_data())
    np.testing.assert_array_equal(path[-1], display.values[display.chosen])
    assert "chosen" in display.ax_.get_legend().get_texts()[0].get_text()
    assert display.plot(legend=False).ax_.get_legend() is None


def test_parts_of_the_samples_are_small():
    scores, n_samples = np.array([0.7, 0.9, np.nan, 0.8]), np.array([100, 100, 400, 400])
    values = np.array([[1.0, 1.0], [2.0, 1.0], [4.0, 1.0], [2.0, 2.0]])
    display = SearchDisplay(values, scores, n_samples, 3, 0.01, ("C", "gamma")).plot()
    assert len(display.cells_.get_offsets()) == 3  # one has no score
    sizes = display.cells_.get_sizes()
    assert sizes[0] == sizes[1] < sizes[2]
    np.testing.assert_array_equal(np.column_stack(display.path_.get_data()), values[[0, 1, 3]])


def test_a_grid_of_scikit_learn(moons):
    grid = {"n_neighbors": [1, 5, 15], "leaf_size": [10, 30], "weights": ["uniform", "distance"]}
    search = GridSearchCV(KNeighborsClassifier(), grid, scoring=["accuracy", "f1"], refit="f1").fit(*moons)
    display = SearchDisplay.from_search(search, ("n_neighbors", "leaf_size"))
    assert display.scores.shape == (6,)
    assert display.scores[display.chosen] == search.best_score_


def test_one_parameter_makes_no_map(moons):
    with pytest.raises(ValueError, match=r"two parameters with several positive numbers, found \['C'\]"):
        SearchDisplay.from_search(SVCSearch(SVC(kernel="linear"), cv=3).fit(*moons))
