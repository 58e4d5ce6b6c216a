"""Benchmarks: how fast is fastsvm next to other implementations, and are all answers equally good?

`python -m bench all --quick` runs the small cases of every suite. Suites are listed in
`bench.suites.SUITES`, cases in `bench.cases.CASES`, competitors in the `competitors.py` of each room.
"""
