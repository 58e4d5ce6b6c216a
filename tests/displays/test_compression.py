import numpy as np

import fastsvm
from fastsvm.displays import CompressionDisplay


def test_curves_are_what_was_tried(moons):
    X, y = moons
    model = fastsvm.SVC().fit(X, y)
    display = CompressionDisplay.from_estimator(model, X, tol=0.05)
    found = fastsvm.compress(model, X, tol=0.05)
    largest, usual = display.lines_
    np.testing.assert_array_equal(largest.get_xdata(), found.curve["n_support"])
    np.testing.assert_array_equal(largest.get_ydata(), found.curve["max_difference"])
    np.testing.assert_array_equal(usual.get_ydata(), found.curve["rms_difference"])
    assert display.chosen_.get_xydata().tolist() == [[found.n_support, found.max_difference]]
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert words[2:] == [f"{found.n_support:,} support vectors", "tol = 0.05", f"{len(model.support_):,} before"]
    display.figure_.canvas.draw()
    other = CompressionDisplay(found).plot(display.ax_, legend=False)
    assert other.ax_ is display.ax_
