"""Damaged files of every kind that is read: each is refused by a message that names it, or read as it was."""

import json
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from forked import Forks
from fuzz.budget import CHUNK, SEED, chunks
from fuzz.damage import damaged, mutate
from fuzz.specimens import MODELS, SPECIMENS
from fuzz.worker import Servant

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of processes are those of Linux")

MANY = (
    "model svc", "model csr", "model linear", "data", "data packed", "data csr",
)  # fmt: skip
"""Files whose bytes are damaged most often."""


class Found(NamedTuple):
    """What a damaged file did that it should not."""

    kind: str
    specimen: str
    number: int
    words: str

    def key(self) -> str:
        return f"{self.kind}: {re.sub(r'[0-9]+', '#', self.words)[:90]}"

    def __str__(self) -> str:
        return f"{self.kind} by {self.specimen!r}, case {self.number} of seed {SEED}: {self.words}"


class Reader:
    """Whole files of all kinds, and a process that reads damaged ones."""

    def __init__(self, folder: Path, forks: Forks) -> None:
        self.whole, copies = folder / "whole", folder / "copies"
        for name, specimen in SPECIMENS.items():
            (self.whole / name).mkdir(parents=True)
            specimen.make(self.whole / name)
        shutil.copytree(self.whole, copies)
        self.servant = Servant(forks, "read", *(copies / name for name in SPECIMENS))
        self._words: dict[str, str] = {}

    def try_case(self, number: int, folder: Path) -> Found | None:
        """Damage a file as the number says, let it be read, and return what should not have come of it."""
        rng = random.Random(f"{SEED} {number}")
        name = rng.choice(sorted(SPECIMENS))
        specimen = SPECIMENS[name]
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.whole / name, folder)
        if specimen.targets:
            target = folder / rng.choice(specimen.targets)
            target.write_bytes(damaged(target.name, target.read_bytes(), rng))
        else:
            words = {"model": rng.choice(MODELS), "seed": rng.randrange(2**32)}
            (folder / "forgery.json").write_text(json.dumps(words))
        return self.judged(name, number, self.servant.ask(name, str(folder)))

    def judged(self, name: str, number: int, answer: list[str]) -> Found | None:
        """Return what should not have come of a damaged file, by the answer of the process."""
        if answer[0] == "refused":
            return None
        if answer[0] == "found":
            same = not SPECIMENS[name].exact or answer[1] == self._word_of(name)
            return None if same else Found("wrong", name, number, "it was read as something else")
        return Found(answer[0], name, number, " ".join(answer[1:]))

    def _word_of(self, name: str) -> str:
        """Return the word for the whole files."""
        if name not in self._words:
            with tempfile.TemporaryDirectory() as folder:
                whole = shutil.copytree(self.whole / name, Path(folder) / "whole")
                self._words[name] = self.servant.ask(name, str(whole))[1]
        return self._words[name]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: Any, fork_server: Forks):
    reader = Reader(tmp_path_factory.mktemp("files"), fork_server)
    yield reader
    reader.servant.close()


@pytest.mark.parametrize(("chunk", "count"), chunks())
def test_damaged_files_are_refused_or_read_as_they_were(chunk, count, reader, tmp_path):
    tried = (reader.try_case(chunk * CHUNK + k, tmp_path / "case") for k in range(count))
    finds = {each.key(): each for each in tried if each is not None}
    assert not finds, "\n".join(map(str, finds.values()))


@pytest.mark.parametrize("name", MANY)
def test_bytes_that_were_damaged_at_random(name, reader, tmp_path):
    (target,), ends = SPECIMENS[name].targets, []
    content = (reader.whole / name / target).read_bytes()
    for number in range(40):
        (tmp_path / target).write_bytes(mutate(content, random.Random(f"{SEED} {name} {number}")))
        answer = reader.servant.ask(name, str(tmp_path))
        found = reader.judged(name, number, answer)
        assert found is None, found
        ends.append(answer[0])
    assert "refused" in ends
