"""Disks that are full at any size of file: an error names the file, nothing is lost, and with room all is as it was."""

import random
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from forked import Forks
from fuzz.budget import CHUNK, SEED, chunks
from fuzz.tasks import TASKS
from fuzz.worker import Servant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of processes are those of Linux")


class Disk:
    """A process that does tasks where files may not grow."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        whole = [folder / "whole" / name for name in TASKS]
        for each in whole:
            each.mkdir(parents=True)
        self._folder = folder / "case"
        self.servant = Servant(forks, "write", *whole)
        self._words: dict[str, str] = {}
        self._whole = folder / "again"

    def try_case(self, number: int) -> str:
        """Do a task with the limit that the number says, and return what should not have come of it."""
        rng = random.Random(f"{SEED} {number}")
        name = rng.choice(sorted(TASKS))
        limit = int(rng.choice([rng.uniform(0, 1 << 14), 2 ** rng.uniform(0, 17)]))
        answer = self._answer(name, self._folder, limit)
        if name not in self._words:
            self._words[name] = self._answer(name, self._whole, None)[1]
        if answer == ["found", self._words[name]]:
            return ""
        if answer[0] == "found":
            answer = ["wrong", "the result is another"]
        where = f"{name!r} with files of at most {limit} bytes, case {number} of seed {SEED}"
        return f"{answer[0]} by {where}: {' '.join(answer[1:])}"

    def _answer(self, name: str, folder: Path, limit: int | None) -> list[str]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return self.servant.ask(name, str(folder), limit)


@pytest.fixture(scope="module")
def disk(tmp_path_factory: Any, fork_server: Forks):
    disk = Disk(tmp_path_factory.mktemp("disk"), fork_server)
    yield disk
    disk.servant.close()


@pytest.mark.parametrize(("chunk", "count"), [(k, max(1, count // 8)) for k, count in chunks()])
def test_a_full_disk_loses_nothing(chunk, count, disk):
    finds = {re.sub("[0-9]+", "#", found): found for k in range(count) if (found := disk.try_case(chunk * CHUNK + k))}
    assert not finds, "\n".join(finds.values())
