"""Print the settings of OPENBLAS_CORETYPE with which this processor runs other kernels of BLAS than without."""

import os
import subprocess
import sys

NAMES = ("Haswell", "SkylakeX", "Zen", "Sandybridge")
_PROGRAM = """
import numpy
import scipy.linalg
import threadpoolctl

numpy.ones((300, 300)) @ numpy.ones((300, 300))  # ends the process where the processor lacks an instruction
print(sorted(str(each.get("architecture")) for each in threadpoolctl.threadpool_info()))
"""


def architecture(name: str | None) -> str:
    """Return which kernels BLAS chooses with a setting, "" if the processor cannot run them."""
    variables = {key: value for key, value in os.environ.items() if key != "OPENBLAS_CORETYPE"}
    variables |= {"OPENBLAS_CORETYPE": name} if name else {}
    found = subprocess.run([sys.executable, "-c", _PROGRAM], env=variables, capture_output=True, text=True)
    return found.stdout if found.returncode == 0 else ""


def main() -> None:
    """Print the names, each architecture once."""
    seen = {"", architecture(None)}
    for name in NAMES:
        own = architecture(name)
        if own not in seen:
            print(name)
        seen.add(own)


if __name__ == "__main__":
    main()
