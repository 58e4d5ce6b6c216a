"""A measurement in a fresh process: told by JSON what to do, it prints what it found and its peak memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from bench.processes import ROOT, limited_to
from bench.workers.memory import peak_mb

__all__ = ["answer", "ask"]


def ask(what: str, told: dict[str, Any], threads: int) -> dict[str, Any]:
    """Return what a module of this package finds in a process of its own."""
    words = [sys.executable, "-m", f"bench.streaming.{what}", json.dumps(told)]
    done = subprocess.run(words, cwd=ROOT, env=limited_to(threads), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{what} failed: {(done.stderr.strip().splitlines() or ['without a word'])[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def answer(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Carry out what this process was told."""
    found = measure(json.loads(sys.argv[1]))
    print(json.dumps({**found, "peak_mb": peak_mb()}))
