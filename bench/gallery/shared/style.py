"""Style that all pictures share."""

import re

from cycler import cycler
from matplotlib.axes import Axes

__all__ = ["COLOURS", "STYLE", "legend_above"]

# As in the displays; they can be distinguished with any colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")

STYLE = {
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.08,
    "figure.constrained_layout.w_pad": 0.08,
    "figure.titlesize": 13,
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.formatter.use_mathtext": True,
    "savefig.dpi": 120,
}


def legend_above(ax: Axes) -> None:
    """Move a legend above all axes, where it hides nothing. Numbers, which are those of one axes, are left out."""
    old = ax.get_legend()
    names = [re.sub(r" \([\d,]+\)", "", text.get_text()) for text in old.get_texts()]
    handles = old.legend_handles
    old.remove()
    ax.figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=12)
