"""What decides which way a fit takes, and when a solver changes its way: records of numbers, a file a room.

A fit reads the current records once, at its beginning, and passes them on. Results do not change by more than the
tolerance when a number changes, only the time that they take does. Benchmarks turn a path off with them, and tests turn
one on that their few samples would not take. They are no part of the public interface.

Each number has a whole sentence: what it is, its unit, and how it was found where that is known.
"""

from fastsvm.tuning.cluster import ClusterTuning
from fastsvm.tuning.current import Tuning, changed, current_tuning, tuned
from fastsvm.tuning.jobs import JobsTuning, Look
from fastsvm.tuning.kernel import KernelTuning
from fastsvm.tuning.limits import Limits
from fastsvm.tuning.linear import LinearTuning
from fastsvm.tuning.nystroem import NystroemTuning
from fastsvm.tuning.products import ProductsTuning
from fastsvm.tuning.search import SearchTuning
from fastsvm.tuning.sgd import SGDTuning
from fastsvm.tuning.storage import StorageTuning

__all__ = [
    "ClusterTuning",
    "JobsTuning",
    "KernelTuning",
    "Limits",
    "LinearTuning",
    "Look",
    "NystroemTuning",
    "ProductsTuning",
    "SGDTuning",
    "SearchTuning",
    "StorageTuning",
    "Tuning",
    "changed",
    "current_tuning",
    "tuned",
]
