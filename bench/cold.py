"""How long does a fresh process take to import, fit and predict? `python -m bench.cold`, from the root.

The first process finds no cached machine code, those after it find what the first one left.
"""

import os
import subprocess
import sys
import tempfile

_RUN = """
import time
begin = time.perf_counter()
import fastsvm
imported = time.perf_counter()
from sklearn.datasets import load_digits
X, y = (part[:1000] for part in load_digits(return_X_y=True))
loaded = time.perf_counter()
model = fastsvm.SVC().fit(X, y)
fitted = time.perf_counter()
model.predict(X)
predicted = time.perf_counter()
steps = imported - begin, fitted - loaded, predicted - fitted
print("import %.2f s, fit %.2f s, predict %.2f s, together %.2f s" % (*steps, sum(steps)))
"""


def main() -> None:
    """Print the times of one process with an empty cache and of three with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for state in ("empty cache", *["full cache"] * 3):
            print(f"{state}: ", end="", flush=True)
            subprocess.run([sys.executable, "-c", _RUN], env=environment, check=True)


if __name__ == "__main__":
    main()
