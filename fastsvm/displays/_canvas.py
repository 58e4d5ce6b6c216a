"""Axes and colours; only this file requires matplotlib."""

from typing import Any

import numpy as np

from fastsvm.tuning import current_tuning

__all__ = ["are_many", "axes_on", "circles_on", "colours_of", "figure_on", "legend_on", "point_look", "pyplot", "tint"]

# Okabe and Ito (2008), Color universal design: people with any colour vision can distinguish these.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")


def pyplot() -> Any:
    """Return matplotlib's pyplot; if it is not installed, ImportError says how to install it."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Displays need matplotlib, which is missing: pip install 'fastsvm[plot]'") from error
    return pyplot


def axes_on(ax: Any, size: tuple[float, float]) -> Any:
    """Return `ax`, or the axes of a new figure of so many inches if it is None."""
    plt = pyplot()
    if ax is not None:
        return ax
    ax = plt.subplots(figsize=size, layout="constrained")[1]
    ax.set_prop_cycle(color=_COLOURS[:-1])  # yellow lines are invisible on white
    return ax


def figure_on(figure: Any, size: tuple[float, float]) -> Any:
    """Return `figure`, or a new figure of so many inches if it is None."""
    plt = pyplot()
    return plt.figure(figsize=size, layout="constrained") if figure is None else figure


def colours_of(n: int, given: Any = None) -> np.ndarray:
    """Return n colours, shape (n, 3): those given, else ones that people with any colour vision can distinguish."""
    pyplot()
    from matplotlib import colormaps
    from matplotlib.colors import to_rgba_array

    if given is None:
        given = _COLOURS[:n] if n <= len(_COLOURS) else colormaps["turbo"](np.linspace(0.03, 0.97, n))
    colours = to_rgba_array(given)[:, :3]
    if len(colours) != n:
        raise ValueError(f"colors must hold one colour for each of the {n} classes, found {len(colours)}.")
    return colours


def tint(colours: np.ndarray, strength: Any) -> np.ndarray:
    """Return colours mixed with white; `strength` is the share of colour, 0 to 1."""
    return 1 - np.asarray(strength)[..., None] * (1 - colours)


def legend_on(ax: Any, where: bool | str, handles: list[Any]) -> None:
    """Draw the legend of the handles, but for None, "beside" the axes or at a place within them; False draws none."""
    place: dict[str, Any] = {"loc": where, "framealpha": 0.85}
    if where == "beside":
        place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "borderaxespad": 0.0, "frameon": False}
    if where is not False:
        ax.legend(handles=[handle for handle in handles if handle is not None], fontsize=9, **place)


def are_many(points: Any) -> bool:
    """Return whether points hide one another: they are smaller then, and rasterised within a vector graphic."""
    return len(points) > current_tuning().look.points


def point_look(points: Any) -> dict[str, Any]:
    """Return parameters of matplotlib's `scatter`."""
    many = are_many(points)
    usual: dict[str, Any] = {"s": 8, "linewidths": 0.3} if many else {"s": 24, "linewidths": 0.6}
    return usual | {"edgecolors": "white", "zorder": 2.5, "rasterized": many}


def circles_on(ax: Any, points: np.ndarray, which: np.ndarray | None, name: str, around: Any) -> Any:
    """Draw circles around some points, shape (n_points, 2), of an artist; return them, or None without numbers."""
    if which is None:
        return None
    look = {"s": 3 * around.get_sizes()[0], "facecolors": "none", "edgecolors": "0.1", "linewidths": 0.8, "zorder": 3}
    if around.get_rasterized():  # points are many
        look |= {"alpha": 0.3, "linewidths": 0.4, "rasterized": True}
    return ax.scatter(*points[which].T, label=f"{name} ({len(which):,})", **look)
