"""Is the exponent the slope of the sizes that were finished?"""

import pytest

from bench.harness import growth
from bench.harness.competitor import OURS
from bench.harness.suite import Finished


def test_exponent_is_the_slope_of_the_finished_sizes(kernel_case, kernel_result):
    finished = [
        Finished(
            kernel_case(f"{n}", series="s"),
            (n, 2),
            [kernel_result(seconds=1e-6 * n**1.7), kernel_result("sklearn", status=status)],
        )
        for n, status in ((1000, "ok"), (2000, "ok"), (4000, "timeout"))
    ]
    assert growth.exponents(finished)["s"] == pytest.approx({OURS: 1.7, "sklearn": 0.0})
    assert growth.exponents([Finished(kernel_case(), (10, 2), [kernel_result()])]) == {}
    assert "1000-4000" in "\n".join(growth.exponent_lines(finished))
