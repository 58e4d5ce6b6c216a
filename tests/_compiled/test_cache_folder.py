from fastsvm._compiled import cache_folder


def test_the_digest_depends_on_the_files_of_every_folder(package, monkeypatch):
    monkeypatch.setattr(cache_folder, "PACKAGE", package)
    seen = {cache_folder.source_digest()}
    folders = {path.parent: path for path in sorted(package.rglob("*.py"))}
    for path in folders.values():
        path.write_bytes(path.read_bytes() + b"\n")
        digest = cache_folder.source_digest()
        assert digest not in seen
        seen.add(digest)


def test_the_digest_depends_on_names(package, monkeypatch):
    monkeypatch.setattr(cache_folder, "PACKAGE", package)
    before = cache_folder.source_digest()
    (package / "kernels.py").rename(package / "other.py")
    assert cache_folder.source_digest() != before


def old_versions(root, names):
    for name in names:
        (root / name).mkdir()
        (root / name / "kept").write_text("x")


def test_the_oldest_code_is_removed(tmp_path):
    names = [f"fastsvm-{number:016x}" for number in range(6)]
    old_versions(tmp_path, names)
    cache_folder._prune(tmp_path, keep=tmp_path / names[0])
    assert (tmp_path / names[0]).exists()
    assert sum(path.exists() for path in map(tmp_path.joinpath, names)) == 4


def test_folders_of_the_user_are_never_removed(tmp_path):
    names = [f"fastsvm-{word}" for word in ("data", "results", "models", "paper", "0123", "backup-of-2024")]
    old_versions(tmp_path, names)
    cache_folder._prune(tmp_path, keep=tmp_path / "fastsvm-0123456789abcdef")
    assert all((tmp_path / name / "kept").exists() for name in names)


def test_a_user_without_a_home_has_a_cache(monkeypatch, tmp_path):
    def homeless(path):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(cache_folder.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(cache_folder.Path, "expanduser", homeless)
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    assert cache_folder.cache_folder().parent.parent == tmp_path


def test_an_unwritable_cache_is_replaced(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(cache_folder, "_cache_root", lambda: tmp_path / "file")
    monkeypatch.setattr(cache_folder.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = cache_folder.cache_folder()
    assert folder.parent.parent == tmp_path
    assert folder.parent.stat().st_mode & 0o077 == 0  # code is loaded from it, so no other user may write there
