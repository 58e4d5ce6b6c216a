"""Puts machine code into a wheel, so that nothing is compiled where it is installed.

`HATCH_BUILD_HOOK_ENABLE_CUSTOM=true python -m build --wheel` fits small models of all estimators, once for each level
of processors that this host has, and packs what they compiled. The wheel is for this version of Python, this version of
Numba and this kind of machine. With another version of Numba the package compiles on first use, as the pure wheel does.
"""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_LEVELS = "x86-64-v4-vnni", "x86-64-v4", "x86-64-v3", "x86-64-v2", "armv8.2-dotprod", "apple-m1"
_WITHOUT_BITCODE = """
import pickle, sys
from pathlib import Path
for path in Path(sys.argv[1]).glob("*.nbc"):
    (_, kind, _), *_ = pickle.loads(path.read_bytes())
    if kind == "bitcode":
        path.unlink()
"""
"""Removes code for LLVM, a third of the wheel: it serves only to compile other functions that call the same ones."""


class MachineCode(BuildHookInterface):
    """Compiles for each level, and adds the code to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the wheel after what it is for."""
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        levels = self._levels()
        for level in levels:
            self.app.display_info(f"Compiling for {level}")
            self._python("-m", "fastsvm", "warmup", FASTSVM_PROCESSOR=level, NUMBA_CACHE_DIR=self._folder.name)
        (code,) = Path(self._folder.name).iterdir()
        self._python("-c", _WITHOUT_BITCODE, str(code))
        versions = self._python("-c", "from fastsvm._compiled.processor import VERSIONS; print(VERSIONS)").strip()
        (code / f"levels.{versions}").write_text("\n".join(levels), encoding="utf-8")
        build_data["force_include"][str(code)] = "fastsvm/_machine_code"
        build_data["pure_python"] = False
        version_tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
        system = sysconfig.get_platform().replace("-", "_").replace(".", "_").replace("linux_", "manylinux_2_17_")
        build_data["tag"] = f"{version_tag}-{version_tag}-{system}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the code that is in the wheel now."""
        if version != "editable":
            self._folder.cleanup()

    def _levels(self) -> list[str]:
        """Return the levels of this host that wheels have code for."""
        program = "from fastsvm._compiled.processor import levels; print(*(level.name for level in levels()))"
        return [name for name in self._python("-c", program).split() if name in _LEVELS]

    def _python(self, *arguments: str, **settings: str) -> str:
        """Run Python in the sources of the package, and return what it prints."""
        environment = os.environ | settings | {"PYTHONPATH": self.root}
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout
