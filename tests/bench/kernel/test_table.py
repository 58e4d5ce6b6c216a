"""Does the table of kernel machines show whatever went wrong?"""

from dataclasses import replace

import pytest

from bench.harness.suite import Finished
from bench.kernel import table


@pytest.fixture
def printed(kernel_case, options):
    def lines(*results):
        return "\n".join(table.lines([Finished(kernel_case(), (10, 2), list(results))], replace(options, repeat=1)))

    return lines


def test_worse_answers_are_noted(printed, kernel_result):
    assert "case, fastsvm" not in printed(kernel_result())
    assert "KKT gap 2.00e-02 is above the tolerance 0.001" in printed(kernel_result(kkt_gap=0.02))
    assert "it claims a KKT gap of 1.00e-04, the referee finds 5.00e-04" in printed(kernel_result(kkt_gap=5e-4))
    assert "constraints are violated" in printed(kernel_result(balance_violation=1.0))
    assert "1.00% of its predictions differ from those of its own answer" in printed(kernel_result(agreement=0.99))
    assert "-5.0e-01" in printed(kernel_result(), kernel_result("sklearn", objective=1.0))


def test_only_our_memory_beyond_the_budget_is_noted(printed, kernel_result):
    allowed = 100 * 2**20 / 1e6 + 20 + 300
    assert "budget, samples and slack are" not in printed(kernel_result(added_mb=allowed - 1))
    assert "case, fastsvm: 426 MB were added; budget, samples and slack are 425 MB" in printed(
        kernel_result(added_mb=allowed + 1)
    )
    assert "budget, samples and slack are" not in printed(
        kernel_result(), kernel_result("sklearn", added_mb=10 * allowed)
    )


def test_ratio_is_to_ours_and_is_bounded_below_after_a_timeout(printed, kernel_result):
    text = printed(
        kernel_result(seconds=2.0), kernel_result("sklearn", seconds=5.0), kernel_result("thundersvm", status="timeout")
    )
    assert [line.split()[4] for line in text.splitlines()[2:4]] == ["1.00", "2.50"]
    assert "> 30.0" in text
