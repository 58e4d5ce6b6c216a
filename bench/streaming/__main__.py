"""A linear SVM from a large file beside a reading of the file and a loop of `partial_fit`: `python -m bench.streaming`.

Each has a fresh process, and the file is dropped from the system's memory before. The referee judges
outside their clocks, streaming too.
"""

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from sklearn.datasets import load_digits

from bench import recipes
from bench.data import DataMissing
from bench.linear_referee import Weights, objectives
from bench.machine import describe
from bench.processes import ROOT
from bench.streaming.big_file import Plan, write
from bench.streaming.comparison import LOOPS, claim_is_off, lines, with_times
from bench.streaming.problem import Pixels
from bench.streaming.process import ask

__all__ = ["main"]

_RESULTS = Path("bench/results")
_MEASURED = {
    "reading": ("reading", {}),
    "fit": ("fitting", {}),
    "loop": ("looping", {"average": True}),
    "loop without average": ("looping", {"average": False}),
}


@dataclass(frozen=True)
class _Size:
    """What is a matter of how large the file is."""

    rows: int
    chunk_rows: int
    C: float
    memory: str
    limit: float
    rows_at_once: int


_LARGE, _QUICK = _Size(2_600_000, 1024, 1e-3, "512MB", 900, 10_000), _Size(60_000, 256, 0.1, "2MB", 2, 1_000)


def main(arguments: list[str] | None = None) -> int:
    """Write, measure, judge and show; return 0, 1 if the fit's claim is wrong, or 2 if the request makes no sense."""
    asked = _parser().parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
            folder = Path(temporary) if asked.quick and not asked.folder else _checked(asked.folder)
            return _measured(asked, folder, Path(temporary))
    except (DataMissing, OSError, ValueError) as error:
        print(f"bench.streaming: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m bench.streaming", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the large file is written, and kept")
    parser.add_argument("--quick", action="store_true", help="a file of some MB, made of bundled data, in seconds")
    parser.add_argument("--rows", type=int, metavar="N", help=f"of the file ({_LARGE.rows}, which are 8 GB)")
    parser.add_argument("--chunk-rows", type=int, metavar="N", help=f"of a chunk ({_LARGE.chunk_rows})")
    parser.add_argument("--C", type=float, help=f"for pixels from 0 to 1 ({_LARGE.C})")
    parser.add_argument("--memory", metavar="SIZE", help=f"of the fit ({_LARGE.memory})")
    parser.add_argument("--tol", type=float, default=1e-3, help="relative duality gap of the fit (0.001)")
    parser.add_argument("--max-iter", type=int, default=100, metavar="N", help="epochs of the fit at most (100)")
    parser.add_argument("--limit", type=float, metavar="S", help=f"seconds of fit and loop at most ({_LARGE.limit})")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), metavar="N", help="of each (all)")
    parser.add_argument("--out", type=Path, default=_RESULTS, metavar="DIR", help=f"folder of results ({_RESULTS})")
    return parser


def _checked(folder: Path | None) -> Path:
    if folder is None:
        raise ValueError("--folder is needed: 8 GB are not written just anywhere")
    if folder.resolve().is_relative_to(ROOT):
        raise ValueError(f"{folder} is within the repository, where no data belong")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _measured(asked: argparse.Namespace, folder: Path, scratch: Path) -> int:
    told = _told(asked)
    path = write(folder, Plan(told["rows"], told["chunk_rows"]), *_images(asked.quick))
    told |= {"path": str(path), "features": _shape(path)[1]}
    found: dict[str, Any] = {"asked": told, "machine": describe()}
    for name, (module, more) in _MEASURED.items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        found[name] = ask(module, {**told, **more, "answer": str(scratch / f"{name}.npz")}, asked.threads)
    print("referee ...", file=sys.stderr, flush=True)
    _judge(found, scratch)
    return _show(with_times(found), asked.out)


def _told(asked: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked for, and for what was not asked the size's own."""
    size = _QUICK if asked.quick else _LARGE
    given = {name: getattr(asked, name, None) or value for name, value in vars(size).items()}
    return {**given, "tol": asked.tol, "max_iter": asked.max_iter, "threads": asked.threads}


def _images(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return bytes and classes; those that are bundled have pixels from 0 to 16."""
    if quick:
        images, labels = load_digits(return_X_y=True)
        return (15 * images).astype(np.uint8), labels.astype(np.int64)
    data = recipes.cifar10(50_000)
    return data.X, data.y


def _shape(path: Path) -> tuple[int, int]:
    with h5py.File(path) as file:
        return file["X"].shape


def _judge(found: dict[str, Any], scratch: Path) -> None:
    """Add the objectives of all weights, which one pass over the file finds."""
    names = ["fit", *LOOPS]
    answers = {name: _stored(scratch / f"{name}.npz") for name in names}
    with h5py.File(found["asked"]["path"]) as file:
        given = [one for name in names for one in answers[name]]
        values = iter(objectives(file["X"], file["y"][:], Pixels(found["asked"]["C"]), given))
    found["fit"]["found"] = next(values)
    for point in (point for name in LOOPS for point in found[name]["points"]):
        point["objective"] = next(values)


def _stored(path: Path) -> list[Weights]:
    with np.load(path) as file:
        return [Weights(*each) for each in zip(file["coef"], file["intercept"], strict=True)]


def _show(found: dict[str, Any], out: Path) -> int:
    now = datetime.now(UTC)
    path = out / f"streaming-{now:%Y%m%d-%H%M%S}.json"
    out.mkdir(parents=True, exist_ok=True)
    content = {"suite": "streaming", "date": now.isoformat(timespec="seconds"), **found}
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n")
    print(*lines(found), f"Saved {path}", sep="\n")
    try:
        from bench.streaming.figure import figure

        figure(found).savefig(path.with_suffix(".png"), dpi=150)
        print(f"Saved {path.with_suffix('.png')}")
    except ImportError:
        print("No picture was drawn: matplotlib cannot be imported.")
    if wrong := claim_is_off(found):
        print(f"FAILED: {wrong}.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
