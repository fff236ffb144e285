"""Python processes beside the tests, in an environment of which each test says what is different."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def start(
    *arguments: str, path: str | Path = ROOT, cwd: Path | None = None, **environment: str | Path
) -> subprocess.Popen:
    """Start Python with ``path`` first among its modules; its output is captured."""
    # Of the tests' own processes only: the simulator is for Numba's CUDA kernels, which no other process runs.
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_ENABLE_CUDASIM"}
    paths = os.pathsep.join(filter(None, [str(path), inherited.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env=inherited | {"PYTHONPATH": paths} | {name: str(value) for name, value in environment.items()},
    )


def finished(process: subprocess.Popen, code: int = 0) -> tuple[str, str]:
    """Wait for a process, and return what it wrote; any other exit code fails the test."""
    try:
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == code, (process.returncode, out, err)
    return out, err


def unwritable(folder: Path) -> dict[str, Path]:
    """Return an environment in which no folder for caches can be made, not even by root: all are below a file."""
    taken = folder / "taken"
    taken.touch()
    homes = ("HOME", "XDG_CACHE_HOME", "USERPROFILE", "LOCALAPPDATA")
    names = (*homes, "NUMBA_CACHE_DIR", "CUPY_CACHE_DIR", "CUKDE_PEAKS")
    return {name: taken / name.lower() for name in names}
