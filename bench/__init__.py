"""Benchmarks: how fast is fastsvm next to other implementations, and are all answers equally good?

`python -m bench all --quick` runs the small cases of every suite. A case is one entry of `bench.cases.CASES`, a
competitor one of `bench.competitors.COMPETITORS`, a suite one of `bench.suites.SUITES`.
"""
