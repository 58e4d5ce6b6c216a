import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastsvm.kernel_matrix.memory_plan import Need, plan
from fastsvm.memory import available, parse_memory
from fastsvm.tuning import KernelTuning


def divided(budget, asked, cache_limit=None):
    return plan(budget, asked, cache_limit, KernelTuning())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("512MB", 512_000_000),
        ("2GB", 2 * 10**9),
        ("1GiB", 2**30),
        ("1.5 kB", 1500),
        (" 3 TiB ", 3 * 2**40),
        (".5G", 5 * 10**8),
        ("4ki", 4096),
        ("100", 100),
        ("7b", 7),
    ],
)
def test_sizes(text, wanted):
    assert parse_memory(text) == wanted


@pytest.mark.parametrize("memory", [12345, np.int64(12345), np.uint32(12345)], ids=["int", "int64", "uint32"])
def test_whole_numbers_are_bytes(memory):
    assert parse_memory(memory) == 12345


def test_auto_is_half_of_what_is_available():
    assert 0.8 * available() / 2 < parse_memory("auto") < 1.25 * available() / 2


@pytest.mark.parametrize(
    "memory",
    [0, -1, True, 1e9, None, "", "GB", "-1GB", "1e9", "2 GB RAM", "1XB", "0", "0MB", [1], float("nan")],
)
def test_what_is_no_size(memory):
    with pytest.raises(ValueError, match="memory must be"):
        parse_memory(memory)


def test_available_is_plausible():
    assert 64 << 20 <= available() < 1 << 50


def need(stored_bytes=0, copied_bytes=0, n_rows=10_000, n_features=100, value_bytes=4, block_rows=1000):
    return Need(
        n_rows=n_rows,
        row_bytes=n_features * value_bytes,
        value_bytes=value_bytes,
        stored_bytes=stored_bytes,
        n_stored_rows=n_rows,
        copied_bytes=copied_bytes,
        block_rows=min(block_rows, n_rows),
    )


needs = st.builds(
    need,
    n_rows=st.integers(2, 10**6),
    n_features=st.integers(1, 10_000),
    value_bytes=st.sampled_from([4, 8]),
    stored_bytes=st.one_of(st.just(0), st.integers(1, 10**10)),
    copied_bytes=st.one_of(st.just(0), st.integers(1, 10**9)),
    block_rows=st.integers(1, 10**5),
)


@given(needs, st.integers(1, 10**11))
def test_a_plan_stays_within_the_budget(asked, budget):
    try:
        found = divided(budget, asked)
    except ValueError:
        return
    held = asked.stored_bytes if found.loaded else asked.copied_bytes if found.part_loaded else 0
    assert found.cache_bytes + held <= budget
    assert 2 <= found.working_set <= asked.n_rows
    assert found.cache_bytes >= found.working_set * asked.n_rows * asked.value_bytes


@given(needs, st.integers(1, 10**9))
def test_the_memory_that_a_refusal_names_is_enough(asked, budget):
    try:
        divided(budget, asked)
    except ValueError as error:
        named = int(re.search(r"(\d+) MB are (?:needed|enough)", str(error))[1]) * 10**6
        assert named > budget
        divided(named, asked)


@given(needs, st.integers(1, 10**9), st.integers(1, 10**9))
def test_more_memory_is_never_refused(asked, budget, more):
    try:
        divided(budget, asked)
    except ValueError:
        return
    divided(budget + more, asked)


def test_everything_is_cached_when_it_fits():
    found = divided(10**9, need(n_rows=1000))
    assert found.cache_bytes == 1000 * 1000 * 4
    assert found.working_set == 1000


def test_rows_on_disk_are_read_once_when_they_take_little():
    assert divided(10**9, need(stored_bytes=10**8)).loaded
    assert not divided(10**9, need(stored_bytes=9 * 10**8)).loaded


def test_rows_in_memory_are_not_read():
    assert not divided(10**9, need()).loaded


def test_the_limit_on_the_cache_leaves_one_working_set():
    found = divided(10**9, need(), 1)
    assert found.cache_bytes == found.working_set * 10_000 * 4


def test_a_small_budget_makes_the_working_set_smaller():
    assert divided(12_000_000, need()).working_set < divided(10**9, need()).working_set


def test_the_message_names_what_was_given_and_what_is_needed():
    with pytest.raises(ValueError, match=r"memory=1 MB is too little .* 10000 values: .*\d+ MB are (needed|enough)"):
        divided(10**6, need())
