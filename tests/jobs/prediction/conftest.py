"""Models, files and their predictions in small blocks."""

import numpy as np
import pytest
from predicted_files import BLOCK, N, alike, write

import fastsvm
from fastsvm.jobs.predict import predict
from fastsvm.tuning import changed, tuned


@pytest.fixture(scope="package")
def made(tmp_path_factory):
    """Return (model, data) by name: classes that are words or numbers, a regression, a file without y."""
    folder = tmp_path_factory.mktemp("made")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, N)
    X = (rng.normal(size=(N, 5)) + 1.5 * np.eye(5)[kind]).astype(np.float32)
    target = X @ np.arange(1.0, 6.0) + rng.normal(size=N)
    words = np.array(["ant", "bumblebee", "Käfer"], object)[kind]
    models = {
        "words": fastsvm.LinearSVC().fit(X[:500], words[:500].astype(str)),
        "pair": fastsvm.SVC().fit(X[:200], kind[:200] > 0),
        "numbers": fastsvm.LinearSVR().fit(X[:500], target[:500]),
    }
    for name, model in models.items():
        fastsvm.save(model, folder / f"{name}.model")
    write(folder / "words.h5", X=X, y=words)
    write(folder / "pair.h5", X=X, y=kind > 0)
    write(folder / "numbers.h5", X=X, y=target)
    write(folder / "without y.h5", X=X)
    found = {name: (folder / f"{name}.model", folder / f"{name}.h5") for name in models}
    return found | {"without y": (folder / "words.model", folder / "without y.h5")}


@pytest.fixture(autouse=True)
def small_blocks(choose):
    choose(jobs={"block_rows": BLOCK})


@pytest.fixture(scope="package")
def whole(made, tmp_path_factory):
    """Return bytes and report of predictions that nothing interrupted, by name and ending."""
    folder, found = tmp_path_factory.mktemp("whole"), {}
    with tuned(changed({"jobs": {"block_rows": BLOCK}})):
        for name, files in made.items():
            for ending in ("csv", "h5"):
                path = folder / f"{name}.{ending}"
                report = predict(*files, path)
                found[name, ending] = path.read_bytes(), alike(report)
    return found
