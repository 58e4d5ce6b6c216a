"""What all suites share: cases, competitors, processes, repetitions, reports. It knows no suite.

Nothing is imported here, so that a worker can time the import of a competitor.
"""
