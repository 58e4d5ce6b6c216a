"""What a release says about itself: one version, every import declared, the same bounds everywhere."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import fastsvm

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULE_OF = {"scikit-learn": "sklearn"}
WITH_OTHERS = {"llvmlite"}
"""Packages whose version another package chooses."""
EXTRAS = {"matplotlib": "plot", "pyarrow": "arrow", "dask": "dask", "distributed": "dask", "zarr": "zarr"}


def bounds(lines):
    """Return {name: lower bound} of requirements."""
    found = (re.match(r"([\w-]+) *(?:>=|==)([\d.]+\d)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_version_is_the_same_everywhere():
    version = fastsvm.__version__
    assert "version" not in PROJECT and PROJECT["dynamic"] == ["version"]
    assert f"\nversion: {version}\n" in text("CITATION.cff")
    assert f'set version = "{version}"' in text("recipe/meta.yaml")
    assert re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", text("CHANGELOG.md"), re.MULTILINE)


def test_every_import_is_declared():
    imported = set()
    for path in Path(fastsvm.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.split(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"fastsvm", "_typeshed"}
    declared = {MODULE_OF.get(name, name) for name in bounds(PROJECT["dependencies"])}
    assert others == declared | WITH_OTHERS | set(EXTRAS)
    extras = PROJECT["optional-dependencies"]
    assert all(package in bounds(extras[extra]) for package, extra in EXTRAS.items())


def test_bounds_are_the_same_everywhere():
    ours = bounds(PROJECT["dependencies"])
    assert bounds(text(".github/lower-bounds.txt").splitlines()) == ours
    recipe = bounds(line.strip(" -") for line in text("recipe/meta.yaml").splitlines())
    assert {name: bound for name, bound in recipe.items() if name not in ("hatchling", "python")} == ours


def test_every_supported_python_is_tested():
    classified = {line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)}
    tested = set(re.findall(r'python: "(3\.\d+)"', text(".github/workflows/tests.yml")))
    assert classified == tested
    assert min(classified, key=lambda name: int(name[2:])) == PROJECT["requires-python"].removeprefix(">=")


def test_processes_that_tests_start_use_the_same_copy_of_the_package(python, tmp_path):
    where = "import importlib.util; print(importlib.util.find_spec('fastsvm').origin)"
    assert python.run(where, tmp_path) == fastsvm.__file__


@pytest.mark.parametrize("name", ["SECURITY.md", "CODE_OF_CONDUCT.md", "LICENSE", "CONTRIBUTING.md", "CITATION.cff"])
def test_usual_files_are_there(name):
    assert text(name).strip()
