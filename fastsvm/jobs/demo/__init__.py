"""The demo: real images, deformed to many, trained from a file and compared with scikit-learn."""

from fastsvm.jobs.demo.comparison import DemoReport, demo
from fastsvm.jobs.demo.table import table

__all__ = ["DemoReport", "demo", "table"]
