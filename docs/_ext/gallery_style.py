"""The style of all pictures of the gallery."""

from typing import Any

from cycler import cycler
from matplotlib import rcParams

# As in the displays; they can be distinguished with any colour vision.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def apply(gallery_conf: dict[str, Any], name: str) -> None:
    """Set the style before each example."""
    rcParams.update(
        {
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "axes.titlesize": 12,
            "axes.prop_cycle": cycler(color=_COLOURS),
            "axes.formatter.use_mathtext": True,
            "savefig.dpi": 120,
        }
    )
