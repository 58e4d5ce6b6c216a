"""A display is added by one class, as CONTRIBUTING says."""

import numpy as np
from matplotlib import pyplot as plt

from fastsvm import SVC
from fastsvm.displays._canvas import Display, colours_of


class SupportDisplay(Display):
    """Numbers of support vectors by class."""

    def __init__(self, counts, names):
        self.counts, self.names = counts, names

    @classmethod
    def from_estimator(cls, estimator, *, ax=None, **drawing):
        return cls(estimator.n_support_, [str(label) for label in estimator.classes_]).plot(ax, **drawing)

    def plot(self, ax=None, *, colors=None):
        ax = self._axes_on(ax, (4.0, 3.0))
        self.bars_ = ax.bar(self.names, self.counts, color=colours_of(len(self.names), colors))
        return self


def test_it_draws_on_new_axes_and_on_those_of_others(moons):
    model = SVC().fit(*moons)
    display = SupportDisplay.from_estimator(model)
    np.testing.assert_array_equal([bar.get_height() for bar in display.bars_], model.n_support_)
    assert len({bar.get_facecolor() for bar in display.bars_}) == 2
    figure, axes = plt.subplots()
    assert display.plot(axes, colors=["k", "y"]) is display
    assert display.ax_ is axes and display.figure_ is figure
    figure.canvas.draw()
