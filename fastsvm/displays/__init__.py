"""Pictures of fitted models, in the manner of scikit-learn's displays; they need matplotlib, the extra `plot`."""

from fastsvm.displays.curves import ConvergenceDisplay
from fastsvm.displays.images import ConfusionDisplay, TemplatesDisplay
from fastsvm.displays.plane import MarginDisplay, TubeDisplay
from fastsvm.displays.search import SearchDisplay

__all__ = [
    "ConfusionDisplay",
    "ConvergenceDisplay",
    "MarginDisplay",
    "SearchDisplay",
    "TemplatesDisplay",
    "TubeDisplay",
]
