"""Machine code on disk: the folders where it is kept, and digests of the sources that it was compiled from.

Thanks to the digests, an edit compiles anew only what it concerns.

Numba's own cache compares the time and the contents of one file, that of the function. After an edit of a helper in
another file it would load stale code, and after one of a comment it would compile everything in the file.

A digest covers the definition of the function, the definitions of the names that it uses, in whatever file they are,
and so on, and the bodies that are registered for the functions with a body for each class. Comments, docstrings and
annotations are left out. It covers no version of other packages: Numba's index names its own.
"""

import ast
import atexit
import functools
import hashlib
import json
import os
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numba

from fastsvm._compiled.processor import SHIPPED

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

_NAME = "fastsvm-machine-code"
PACKAGE = Path(__file__).parents[1]
_MACHINERY = ("_compiled.compiler", "_compiled.numba_internals", "_compiled.processor")
_CACHE = "_compiled.code_cache"  # changes nothing in what is compiled
_REGISTERING = {"register", "default"}  # methods of generic functions that add bodies, as Numba's `overload` does
_SECONDS = 0.2  # New digests are stored after so many.
_WAIT_SECONDS, _POLL_SECONDS = 60.0, 0.02  # A process waits so long for another one's code, and asks so often.
KEPT = 4
"""Lists of digests, and versions of the code of a function, are kept for so many sources, as of several checkouts."""


# --- folders ---------------------------------------------------------------------------------------------


@functools.cache
def folders() -> tuple[Path, ...]:
    """Return the folders where machine code may be found, the preferred one first. They need not exist."""
    root, taking = _cache_root(), writeable_folder()
    shipped = SHIPPED if SHIPPED.is_dir() else None
    preferred = None if root is None else root / _NAME
    return tuple(dict.fromkeys(folder for folder in (shipped, preferred, taking) if folder is not None))


@functools.cache
def writeable_folder() -> Path | None:
    """Return the first folder that takes new machine code, made where it is missing; None if there is none."""
    for root_of in (_cache_root, _private_root):  # the second makes a folder, so it is asked only where it is needed
        with suppress(OSError):
            root = root_of()
            if root is None:
                continue
            folder = root / _NAME
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    return None


def _cache_root() -> Path | None:
    config: Any = numba.config  # Numba sets its settings at import, so type checkers know none of them
    if config.CACHE_DIR:  # NUMBA_CACHE_DIR
        return Path(config.CACHE_DIR)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser()
    except RuntimeError:  # a container may run as a user without a home
        return None


def _private_root() -> Path | None:
    """Return a temporary folder to which only the user can write, because code is loaded from it, or None."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    try:
        root = Path(tempfile.gettempdir()) / f"fastsvm-cache-{user}"
    except FileNotFoundError:  # a container may have no folder that can be written to
        return None
    with suppress(OSError):
        root.mkdir(mode=0o700)
    if hasattr(os, "getuid") and (not root.is_dir() or root.is_symlink() or root.stat().st_uid != os.getuid()):
        with suppress(OSError):
            return Path(tempfile.mkdtemp(prefix="fastsvm-cache-"))
        return None
    return root


class Claim:
    """The right to compile something or to change a file: others wait for its end, a while, then go on without it."""

    def __init__(self, path: Path) -> None:
        self._path, self.has_waited, end = path, False, time.monotonic() + _WAIT_SECONDS
        self._file: int | None = None
        if fcntl is not None:  # else the file, which Windows does not remove while it is open, would stay
            with suppress(OSError):  # the disk may be full
                self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o666)
        while not self._is_locked() and time.monotonic() < end:
            self.has_waited = True
            time.sleep(_POLL_SECONDS)

    def _is_locked(self) -> bool:
        try:
            if self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # some file systems have no locks
            pass
        return True

    def release(self) -> None:
        """Let others go on."""
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *raised: object) -> None:
        self.release()


# --- digests ---------------------------------------------------------------------------------------------


class _Statement(NamedTuple):
    """What a statement at the top of a module means for compiled code."""

    code: str
    """Digest of it."""
    names: frozenset[str]
    imports: dict[str, tuple[str, str]]
    """Names that imports within the statement bind: the module, and the name there or "" for the module itself."""


class _Module(NamedTuple):
    """Statements of a module."""

    definitions: dict[str, list[ast.stmt]]
    imports: dict[str, tuple[str, str]]
    registrations: dict[str, list[ast.stmt]]
    """By the name of a generic function, the statements that register bodies for it."""


class Sources:
    """The sources of a package, given by its folder, read once and parsed as far as they are asked for."""

    def __init__(self, package: Path) -> None:
        paths = {path: path.relative_to(package).with_suffix("").parts for path in sorted(package.rglob("*.py"))}
        names = {path: parts[:-1] if parts[-1] == "__init__" else parts for path, parts in paths.items()}
        self._texts = {".".join(parts): path.read_bytes() for path, parts in names.items()}
        self._package = package.name
        self._modules: dict[str, _Module] = {}
        self._statements: dict[ast.stmt, _Statement] = {}
        self._nodes: dict[tuple[str, str], tuple[list[str], set[tuple[str, str]]]] = {}

    @functools.cached_property
    def raw_digest(self) -> str:
        """Digest of all files as they are."""
        digest = hashlib.sha256()
        for name, text in self._texts.items():
            digest.update(name.encode() + b"\0" + text + b"\0")
        return digest.hexdigest()[:16]

    def digest(self, module: str, name: str) -> str:
        """Return the digest of a function; `module` is its name within the package."""
        wanted = [(module, name), *((each, "") for each in _MACHINERY if each in self._texts)]
        definitions: dict[tuple[str, str], list[str]] = {}
        while wanted:
            node = wanted.pop()
            if node not in definitions:
                if node not in self._nodes:
                    self._nodes[node] = self._node(*node)
                definitions[node], uses = self._nodes[node]
                wanted.extend(uses)
        content = json.dumps(sorted((*node, *codes) for node, codes in definitions.items()))
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _node(self, module: str, name: str) -> tuple[list[str], set[tuple[str, str]]]:
        """Return the code of a definition, or of a whole module for "", and the definitions that it uses."""
        codes: list[str] = []
        uses: set[tuple[str, str]] = set()
        for each in self._module(module).definitions if name == "" else [name]:
            nodes = [(module, node) for node in self._module(module).definitions.get(each, [])]
            for owner, node in nodes + self._registrations.get((module, each), []):
                statement = self._statement(node)
                codes.append(statement.code)
                uses.update(self._resolved(owner, used, statement.imports) for used in statement.names)
        return codes, {each for each in uses if each[0] in self._texts and not each[0].startswith(_CACHE)}

    @functools.cached_property
    def _registrations(self) -> dict[tuple[str, str], list[tuple[str, ast.stmt]]]:
        """Statements that register bodies, with their modules, by the generic function."""
        bodies: dict[tuple[str, str], list[tuple[str, ast.stmt]]] = {}
        for module in filter(self._registers, self._texts):
            for name, nodes in self._module(module).registrations.items():
                bodies.setdefault(self._resolved(module, name, {}), []).extend((module, node) for node in nodes)
        return bodies

    def _registers(self, module: str) -> bool:
        """Return whether a module may register bodies."""
        return any(f"{name}(".encode() in self._texts[module] for name in (*_REGISTERING, "overload"))

    def _resolved(self, module: str, name: str, inner: dict[str, tuple[str, str]]) -> tuple[str, str]:
        """Return the module that defines a name which is used in `module`, and its name there."""
        seen = set()
        imports = inner
        while (module, name) not in seen:  # a package may import a name from a module that imports it
            seen.add((module, name))
            place = imports.get(name) or self._module(module).imports.get(name)
            if place is None:
                break
            module, name = place
            if name == "" or module not in self._texts:
                break
            imports = {}
        return module, name

    def _module(self, name: str) -> _Module:
        if name in self._modules:
            return self._modules[name]
        module = self._modules[name] = _Module({}, {}, {})
        for node in ast.parse(self._texts[name]).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                module.imports.update(self._bound_by(node))
                continue
            for each in _defined(node):
                module.definitions.setdefault(each, []).append(node)
            for each in _registered_for(node) if self._registers(name) else ():
                module.registrations.setdefault(each, []).append(node)
        return module

    def _statement(self, node: ast.stmt) -> _Statement:
        if node in self._statements:
            return self._statements[node]
        imports: dict[str, tuple[str, str]] = {}
        names = set()
        _bare(node)
        for part in ast.walk(node):
            if isinstance(part, ast.Import | ast.ImportFrom):
                imports.update(self._bound_by(part))
            elif isinstance(part, ast.Name):
                names.add(part.id)
        code = hashlib.sha256(ast.dump(node).encode()).hexdigest()
        self._statements[node] = _Statement(code, frozenset(names), imports)
        return self._statements[node]

    def _bound_by(self, node: ast.Import | ast.ImportFrom) -> dict[str, tuple[str, str]]:
        """Return the names of the package that an import binds."""
        bound = {}
        for alias in node.names:
            whole = node.module if isinstance(node, ast.ImportFrom) else alias.name
            owner, _, within = (whole or "").partition(".")
            if owner != self._package:
                continue
            if isinstance(node, ast.Import):
                bound[alias.asname or owner] = (within if alias.asname else "", "")
                continue
            inner = f"{within}.{alias.name}".lstrip(".")
            bound[alias.asname or alias.name] = (inner, "") if inner in self._texts else (within, alias.name)
        return bound


def _bare(node: ast.stmt) -> None:
    """Remove docstrings, other lone texts, and annotations of functions."""
    for part in ast.walk(node):
        body = getattr(part, "body", None)
        if isinstance(body, list):
            part.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
        if isinstance(part, ast.FunctionDef):
            part.returns = None
        elif isinstance(part, ast.arg):
            part.annotation = None


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _defined(node: ast.stmt) -> set[str]:
    """Return the names that a statement at the top of a module binds."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    bound = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
    return bound | {part.name for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.ClassDef)}


def _registered_for(node: ast.stmt) -> set[str]:
    """Return the names of functions for which a statement registers bodies."""
    names = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and part.attr in _REGISTERING:
            owner = part.value
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "overload":
            owner = part.args[0]
        else:
            continue
        if isinstance(owner, ast.Name):
            names.add(owner.id)
    return names


class _Digests:
    """Digests of the functions of the package, kept on disk for processes with the same sources."""

    def __init__(self) -> None:
        self._sources = Sources(PACKAGE)
        content = f"{self._sources.raw_digest};{sys.version_info[:2]}"
        self._file = f"digests-{hashlib.sha256(content.encode()).hexdigest()[:16]}.json"
        self._known: dict[str, str] = {}
        for folder in folders():
            self._known |= self._stored(folder)
        self._n_stored, self._moment = len(self._known), time.monotonic()
        atexit.register(self._store)

    def of(self, module: str, name: str) -> str:
        """Return the digest of a function of a module of the package."""
        key = f"{module}:{name}"
        if key not in self._known:
            self._known[key] = self._sources.digest(module, name)
            if time.monotonic() > self._moment + _SECONDS:  # another process may need them before this one ends
                self._store()
        return self._known[key]

    def _stored(self, folder: Path) -> dict[str, str]:
        with suppress(OSError, ValueError):
            return json.loads((folder / self._file).read_text(encoding="utf-8"))
        return {}

    def _store(self) -> None:
        folder = writeable_folder()
        if folder is None or len(self._known) == self._n_stored:
            return
        with suppress(OSError):  # the disk may be full, and another process may remove the file
            self._known |= self._stored(folder)
            self._n_stored, self._moment = len(self._known), time.monotonic()
            part = folder / f"{self._file}.{uuid.uuid4().hex[:16]}"
            part.write_text(json.dumps(self._known, indent=0), encoding="utf-8")
            part.replace(folder / self._file)
            old = sorted(folder.glob("digests-*.json"), key=lambda path: path.stat().st_mtime)
            for path in old[:-KEPT]:
                path.unlink(missing_ok=True)


@functools.cache
def _digests() -> _Digests:
    return _Digests()


def function_digest(module: str, name: str, file: str) -> str:
    """Return the digest of the function `name` at the top of a module, whose path is `file`."""
    package, _, within = module.partition(".")
    if package == PACKAGE.name and Path(file).is_relative_to(PACKAGE):
        return _digests().of(within, name)
    # A function of another package, such as one of a test, depends on all our sources.
    content = Path(file).read_bytes() + _digests()._sources.raw_digest.encode()
    return hashlib.sha256(content).hexdigest()[:16]
