"""On what were the numbers measured? Machine, versions, commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = ["describe"]

_PACKAGES = (
    "fastsvm", "numpy", "scipy", "numba", "h5py", "scikit-learn", "scikit-learn-intelex", "daal", "libsvm-official",
    "liblinear-official", "thundersvm-cpu", "vowpalwabbit", "snapml", "dask", "distributed", "dask-ml", "xgboost",
)  # fmt: skip


def describe() -> dict[str, Any]:
    """Return what a reader needs to compare the numbers with others."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg() if hasattr(os, "getloadavg") else None,  # of others, at the start
        "memory_gb": round(_memory() / 1e9, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name))},
        "commit": _commit(),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """Return the commit, with a + if files differ from it; None where there is no git."""

    def git(*arguments: str) -> str:
        command = ["git", "--no-optional-locks", *arguments]
        done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
