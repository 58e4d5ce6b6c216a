"""Pictures of fitted models, in the manner of scikit-learn's displays; they need matplotlib, the extra `plot`."""

from fastsvm.displays.compression import CompressionDisplay
from fastsvm.displays.confusion import ConfusionDisplay
from fastsvm.displays.convergence import ConvergenceDisplay
from fastsvm.displays.hyperplane import HyperplaneDisplay
from fastsvm.displays.margin import MarginDisplay
from fastsvm.displays.templates import TemplatesDisplay
from fastsvm.displays.tube import TubeDisplay

__all__ = [
    "CompressionDisplay",
    "ConfusionDisplay",
    "ConvergenceDisplay",
    "HyperplaneDisplay",
    "MarginDisplay",
    "TemplatesDisplay",
    "TubeDisplay",
]
