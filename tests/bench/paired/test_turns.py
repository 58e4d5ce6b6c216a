"""Is a ratio stated with its noise, and is a certificate that cannot be true found?"""

import json
import math

import pytest

from bench.paired.against import SLOWER, UnknownCommit, checked_out, lines
from bench.paired.turns import Pairing


def records(seconds, objective=-2.0, gap=0.001, converged=True, processes=None):
    same = {
        "claimed": {"objective_": objective, "duality_gap_": gap},
        "converged": converged,
        "n_iter": [7],
        "of_dual": False,
    }
    processes = processes or [0] * len(seconds)
    return [{"seconds": one, "process": of, **same} for one, of in zip(seconds, processes, strict=True)]


def pairing(first, second):
    return Pairing("case", ("tree", "commit"), (first, second))


def test_interval_of_a_ratio_holds_its_pairs_whatever_the_load():
    found = pairing(records([1.1, 2.2, 3.3]), records([1.0, 2.0, 3.0]))  # the machine became three times as slow
    assert found.ratio == pytest.approx(1.1)
    assert found.interval == pytest.approx((1.1, 1.1))
    noisy = pairing(records([1.1, 2.0, 3.9]), records([1.0, 2.0, 3.0]))
    low, high = noisy.interval
    assert low < 1 < noisy.ratio < high


def test_pairing_that_was_kept_says_the_same():
    found = pairing(records([1.1, 2.2]), records([1.0, 2.1]))
    again = Pairing.of_json(json.loads(json.dumps(found.json())), "seconds")
    assert again.json() == {**found.json(), "sides": again.sides}
    assert (again.interval, again.differs) == (found.interval, found.differs)


def test_each_process_counts_once():
    """A process that is slow by chance is one sample, however often it fits."""
    chance = records([1.2, 1.2, 1.0, 1.0], processes=[1, 1, 2, 2])
    low, high = pairing(chance, records([1.0] * 4)).interval
    assert low < 0.5 and high > 2


def test_one_pair_says_nothing():
    assert pairing(records([2.0]), records([1.0])).interval == (0.0, math.inf)


@pytest.mark.parametrize(
    ("other", "word"),
    [
        (records([1.0]), ""),
        (records([1.0], objective=-2.0005), ""),
        (records([1.0], objective=-2.5), "no optimum is within both"),
        (records([1.0], converged=False), "only tree converged"),
    ],
)
def test_certificates_of_both_sides_must_hold(other, word):
    found = pairing(records([1.0]), other).wrong
    assert len(found) == bool(word)
    assert not word or word in found[0]


def test_dual_objective_is_the_lower_end():
    first, second = (records([1.0], objective=objective, gap=0.1) for objective in (-2.0, -1.85))
    assert pairing(first, second).wrong
    first[0]["of_dual"] = True  # the optimum is between -2 and -1.9, and of the other between -1.95 and -1.85
    assert not pairing(first, second).wrong
    second[0]["of_dual"] = True
    assert pairing(first, second).wrong


def test_table_names_what_is_slower():
    slow, same = pairing(records([2.0, 2.0]), records([1.0, 1.0])), pairing(records([1.0, 1.0]), records([1.0, 1.0]))
    assert slow.interval[0] > SLOWER
    text = lines([("small", slow), ("small", same)])
    assert [line.rstrip().endswith("slower") for line in text[2:4]] == [True, False]
    assert text[-1] == "small: 1.414 in the mean, 2.000 at most"


def test_commit_that_git_does_not_know_is_told():
    with pytest.raises(UnknownCommit, match="no-such-commit"), checked_out("no-such-commit"):
        pass
