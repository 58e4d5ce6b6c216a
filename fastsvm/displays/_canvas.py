"""Axes, colours and what displays share; only this file requires matplotlib."""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from fastsvm.tuning import current_tuning

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from matplotlib.lines import Line2D
else:  # matplotlib is imported where something is drawn
    Artist = Axes = AxesImage = Figure = Line2D = PathCollection = object

Option: TypeAlias = Any
"""A parameter of a display or of one of matplotlib's artists."""

Look = dict[str, Option]
"""Parameters of matplotlib's artists."""

Colours = Sequence | np.ndarray | None
"""Colours as matplotlib takes them, one for each class; None for those of this file."""

# Okabe and Ito (2008), Color universal design: people with any colour vision can distinguish these.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


class Display:
    """What displays share.

    Parameters
    ----------
    points : Points
        The samples, their labels, the classes, and the names of the features.
    circled : ndarray of int or None, default=None
        Numbers of the samples to circle.
    circled_name : str, default="support vectors"
        Name of the circled samples in the legend.
    circle : bool, default=True
        Whether to circle samples: those of `support_`, or of `within_margin_` if the model has it and it differs.
    class_names : sequence of str or None
        Names of the classes in the order of the labels; None uses the labels.
    image_shape : tuple of int or None
        Shape of the image in a row: (h, w), (c, h, w) or (h, w, c), with 1 or 3 channels. `ConfusionDisplay` takes None
        for samples that are no images.
    channels : {"first", "last"} or None
        Place of the channels in `image_shape`; None infers it if it is unambiguous.
    ax : matplotlib Axes or None
        Axes to draw on; None makes a figure.
    label : str or None
        Name of the model in the legend; all its curves then have one colour.
    legend : bool or str, default=True
        Whether to draw a legend, or its place within the axes.
    figure : matplotlib Figure, SubFigure or None
        Figure to draw on; None makes one.
    colors : sequence of colours or None
        A colour for each class.
    points_kwargs : dict or None
        Parameters of matplotlib's `scatter`, which draws the points.
    **line_kwargs
        For matplotlib's `plot`, which draws the curves.
    **drawing
        Parameters of `plot`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure of the axes.

    Returns
    -------
    display
        The display, drawn.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """

    circled: np.ndarray | None
    circled_name: str

    def _axes_on(self, ax: Axes | None, size: tuple[float, float]) -> Axes:
        """Draw on `ax`, or on the axes of a new figure of so many inches if it is None."""
        plt = pyplot()
        if ax is None:
            ax = plt.subplots(figsize=size, layout="constrained")[1]
            ax.set_prop_cycle(color=_COLOURS[:-1])  # yellow lines are invisible on white
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _draw_legend(self, where: bool | str, handles: Sequence[Artist | None]) -> None:
        """Draw a legend of the handles that are not None, "beside" the axes or at a place within them, unless False."""
        place: Look = {"loc": where, "framealpha": 0.85}
        if where == "beside":
            place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0, "frameon": False}
        if where is not False:
            self.ax_.legend(handles=[handle for handle in handles if handle is not None], fontsize=9, **place)

    def _draw_circles(self, points: np.ndarray, artist: PathCollection) -> PathCollection | None:
        """Return circles around those points of an artist that have the numbers `circled`, None without numbers."""
        if self.circled is None:
            return None
        look = {
            "s": 3 * artist.get_sizes()[0],
            "facecolors": "none",
            "edgecolors": "0.1",
            "linewidths": 0.8,
            "zorder": 3,
        }
        if artist.get_rasterized():  # points are many
            look |= {"alpha": 0.3, "linewidths": 0.4, "rasterized": True}
        name = f"{self.circled_name} ({len(self.circled):,})"
        return self.ax_.scatter(*points[self.circled].T, label=name, **look)


def pyplot() -> ModuleType:
    """Return matplotlib's pyplot; if it is not installed, ImportError says how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Displays need matplotlib, which is missing: pip install 'fastsvm[plot]'") from error
    return pyplot


def check_fit(estimator: BaseEstimator) -> None:
    """Raise ImportError without matplotlib, NotFittedError for an estimator that is not fitted."""
    pyplot()
    check_is_fitted(estimator)


def colours_of(n: int, colours: Colours = None) -> np.ndarray:
    """Return n colours, shape (n, 3): those passed, else ones that people with any colour vision can distinguish."""
    pyplot()
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    if colours is None:
        colours = _COLOURS[:n] if n <= len(_COLOURS) else colormaps["turbo"](np.linspace(0.03, 0.97, n))
    rgb = to_rgba_array(colours)[:, :3]
    if len(rgb) != n:
        raise ValueError(f"colors must hold one colour for each of the {n} classes, found {len(rgb)}.")
    return rgb


def tint(colours: np.ndarray, strength: np.ndarray | float) -> np.ndarray:
    """Return colours mixed with white; `strength` is the share of colour, 0 to 1."""
    return 1 - np.asarray(strength)[..., None] * (1 - colours)


def are_many(points: np.ndarray) -> bool:
    """Return whether points hide one another: they are smaller then, and lines are drawn above them."""
    return len(points) > current_tuning().look.points
