import gzip
import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from fastsvm.formats.fetch import DATASETS, Dataset, FetchError, Remote, download, fetch

CONTENT = np.random.default_rng(0).bytes(700_000)


class Server(ThreadingHTTPServer):
    """Serves `files`. `ranges` and `cut` control its defects."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"rows.bin": CONTENT}
        self.ranges = True
        self.cut: int | None = None
        self.asked: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server, name, wanted = self.server, self.path.lstrip("/"), self.headers["Range"]
        server.asked.append((name, wanted))
        if name not in server.files:
            self.send_error(404)
            return
        content = server.files[name]
        start = int(wanted[len("bytes=") : -1]) if wanted and server.ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        self.wfile.write(content[start : server.cut])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def remote(name: str, content: bytes) -> Remote:
    return Remote(name, hashlib.md5(content, usedforsecurity=False).hexdigest(), len(content))


ROWS = remote("rows.bin", CONTENT)


def get(server: Server, folder: Path, expected: Remote = ROWS) -> Path:
    return download(f"{server.url}/{expected.name}", folder, expected, progress=False)


def test_download(server, tmp_path):
    path = get(server, tmp_path)
    assert path.read_bytes() == CONTENT
    assert [file.name for file in tmp_path.iterdir()] == ["rows.bin"]
    assert get(server, tmp_path) == path
    assert server.asked == [("rows.bin", None)]


def test_a_file_with_another_checksum_is_replaced(server, tmp_path):
    (tmp_path / "rows.bin").write_bytes(bytes(len(CONTENT)))
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_truncated_transfer_is_resumed(server, tmp_path):
    server.cut = 300_000
    with pytest.raises(FetchError, match="300000 of 700000 bytes; run this again"):
        get(server, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["rows.bin.part"]
    server.cut = None
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("rows.bin", "bytes=300000-")


def test_server_without_ranges_starts_anew(server, tmp_path):
    server.ranges = False
    (tmp_path / "rows.bin.part").write_bytes(b"x" * 1000)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1] == ("rows.bin", "bytes=1000-")


def test_complete_part_is_not_downloaded(server, tmp_path):
    (tmp_path / "rows.bin.part").write_bytes(CONTENT)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == []


def test_part_that_is_too_long_is_dropped(server, tmp_path):
    (tmp_path / "rows.bin.part").write_bytes(CONTENT + b"x")
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.asked == [("rows.bin", None)]


@pytest.mark.parametrize("served", [CONTENT[:-1] + b"?", CONTENT + b"?", CONTENT[:1000]])
def test_checksum_mismatch_removes_the_part(server, tmp_path, served):
    server.files["rows.bin"] = served
    (tmp_path / "rows.bin.part").write_bytes(CONTENT[:1000])
    with pytest.raises(FetchError, match=f"expected is {ROWS.md5}"):
        get(server, tmp_path)
    assert not list(tmp_path.iterdir())


def test_errors_of_the_server(server, tmp_path):
    with pytest.raises(FetchError, match="404"):
        get(server, tmp_path, ROWS._replace(name="nothing.bin"))
    closed = server.url
    server.server_close()
    with pytest.raises(FetchError, match="cannot be downloaded"):
        download(f"{closed}/rows.bin", tmp_path, ROWS, progress=False)
    with pytest.raises(FetchError, match="not an http"):
        download("file:///rows.bin", tmp_path, ROWS)
    assert issubclass(FetchError, OSError)


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes())


@pytest.fixture
def digits(server, monkeypatch) -> Server:
    """Add a small data set to the server and to the table."""
    files = {}
    for prefix, n in (("train", 12), ("t10k", 5)):
        files[f"{prefix}-images-idx3-ubyte.gz"] = idx(np.arange(n * 4, dtype=np.uint8).reshape(n, 2, 2))
        files[f"{prefix}-labels-idx1-ubyte.gz"] = idx(np.arange(n, dtype=np.uint8) % 2)
    server.files = files
    table = tuple(remote(name, content) for name, content in files.items())
    monkeypatch.setitem(DATASETS, "digits", Dataset(f"{server.url}/", table, class_names=("even", "odd")))
    return server


def test_fetch(digits, tmp_path, load):
    folder = tmp_path / "data"
    train, test = fetch("digits", folder, progress=False)
    assert (train, test) == (folder / "digits-train.h5", folder / "digits-test.h5")
    stored = load(train)
    assert stored.X.shape == (12, 4) and load(test).X.shape == (5, 4)
    assert stored.class_names == ["even", "odd"]
    np.testing.assert_array_equal(stored.X[:, 0] // 4 % 2, stored.y)
    asked = len(digits.asked)
    assert fetch("digits", folder, progress=False) == [train, test]
    assert len(digits.asked) == asked == 4


def test_fetch_from_another_address(digits, tmp_path, monkeypatch):
    unreachable = DATASETS["digits"]._replace(address="http://127.0.0.1:9/")
    monkeypatch.setitem(DATASETS, "digits", unreachable)
    with pytest.raises(FetchError, match=r"127\.0\.0\.1:9"):
        fetch("digits", tmp_path, progress=False)
    assert all(path.exists() for path in fetch("digits", tmp_path, progress=False, base_url=digits.url))


def test_unknown_name(tmp_path):
    with pytest.raises(ValueError, match="cifar10, mnist, fashion-mnist"):
        fetch("imagenet", tmp_path)


def test_the_table_is_complete():
    for name in ("cifar10", "mnist", "fashion-mnist"):
        for file in DATASETS[name].files:
            assert len(file.md5) == 32 and int(file.md5, 16) and file.size > 0 and "/" not in file.name
        assert DATASETS[name].address.endswith("/")
