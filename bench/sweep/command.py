"""The command `python -m bench sweep`: draws are measured one after the other in a process of their own.

A draw that takes too long, or ends the process, is recorded as that, and the next one begins in a new process.
"""

import argparse
import multiprocessing
import time
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bench.harness.study import RESULTS, Study
from bench.sweep.draws import drawn
from bench.sweep.ranking import line_of, lines

__all__ = ["main"]

_LIMIT_S = 120.0
_PATIENCE_S = 5.0  # with a process that is to end


def main(arguments: list[str] | None = None) -> int:
    """Measure the draws, print a line for each and the ranking, and save. Returns 1 if one is wrong or missing."""
    parser = argparse.ArgumentParser("python -m bench sweep", description=__doc__)
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="how many (1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the draws (0)")
    parser.add_argument("--only", type=int, action="append", metavar="NUMBER", help="only this draw (repeatable)")
    parser.add_argument("--quick", action="store_true", help="other draws, of at most 2,000 samples and 200 features")
    parser.add_argument("--limit", type=float, default=_LIMIT_S, metavar="S", help=f"of a draw ({_LIMIT_S:g})")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="DIR", help=f"folder of the JSON file ({RESULTS})")
    asked = parser.parse_args(arguments)
    study = Study("sweep", asked.out, options={"seed": asked.seed, "quick": asked.quick, "limit_s": asked.limit})
    numbers = asked.only or list(range(asked.draws))
    findings: list[dict[str, Any]] = []
    try:
        with _Process(asked) as process:
            for number in tqdm(numbers, desc="draws", unit="draw", disable=None):
                findings.append(process.measured(number))
                tqdm.write(line_of(findings[-1]))
                study.add(findings[-1]["line"], findings[-1])
    except KeyboardInterrupt:
        print("\nInterrupted. The draws until now are saved.")
    print(*lines(findings), "", f"Saved {study.path}", sep="\n")
    return int(any(one["status"] not in ("right", "refused") for one in findings))


class _Process:
    """A process that measures one draw after the other. After a draw that it did not survive, a new one begins."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._process: multiprocessing.process.BaseProcess | None = None

    def __enter__(self) -> "_Process":
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None:
            self._pipe.close()  # which ends the process between two draws
            self._process.join(_PATIENCE_S)
            self._process.kill()

    def measured(self, number: int) -> dict[str, Any]:
        """Return what was found about a draw, or what the process did when it was last heard."""
        if self._process is None:
            self._start()
        draw, limit = drawn(self._asked.seed, number, self._asked.quick), self._asked.limit
        status, stage, end = "hung", "the process starts", time.monotonic() + limit
        found: dict[str, Any] = {"draw": asdict(draw), "line": draw.line()}
        try:
            self._pipe.send(number)
            while self._pipe.poll(max(0.0, end - time.monotonic())):
                message = self._pipe.recv()
                if isinstance(message, dict):
                    return message
                status, stage = message
            found |= {"status": status, "errors": {f"after {limit:g} s": stage}}
        except (EOFError, ConnectionError):
            found |= {"status": "ended", "errors": {"the process ended": stage}}
        self._process.kill()
        self._process.join()
        self._process = None
        return found

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, end = context.Pipe()
        self._process = context.Process(target=_serve, args=(end, self._asked.seed, self._asked.quick), daemon=True)
        self._process.start()
        end.close()


def _serve(pipe: Connection, seed: int, quick: bool) -> None:
    """Measure the draws whose numbers arrive, until the other end is closed."""
    from bench.sweep.measuring import measured

    with suppress(EOFError, KeyboardInterrupt):
        while True:
            pipe.send(measured(drawn(seed, pipe.recv(), quick), lambda *at: pipe.send(at)))
