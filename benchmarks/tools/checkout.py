"""The commit that a record comes from, and whether its code had changed since."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

from cukde._version import __version__

COUNTED = ("cukde", "kernels_cu", "benchmarks", "tests", "pyproject.toml")
"""Where a change of a tracked file may change what a run measures."""

_RESULTS = "benchmarks/results"
"""Records that runs write themselves."""

_DIRTY = "-dirty"
"""How ``git describe --dirty`` ends the name of a commit for a changed checkout."""


def source() -> dict[str, Any]:
    """The record's "commit", and "changed" where the code is not that of the commit: see :func:`records.write`.

    RuntimeError for changed code, unless the environment has ``CUKDE_DIRTY=1``.
    """
    checkout = Path(__file__).parents[2]
    commit = _head(checkout)
    if commit:
        changed = _changed(checkout, commit)
    else:
        named = os.environ.get("CUKDE_COMMIT", "")
        commit = named.removesuffix(_DIRTY) or __version__
        changed = ["by the name in CUKDE_COMMIT"] if named.endswith(_DIRTY) else []
    if not changed:
        return {"commit": commit}
    if os.environ.get("CUKDE_DIRTY") != "1":
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise RuntimeError(
            f"a record must be of the code of a commit; got changes since {commit[:12]}: {', '.join(changed[:3])}"
            f"{more}; commit them, or set CUKDE_DIRTY=1 for a record that says so"
        )
    return {"commit": commit, "changed": True}


def begin() -> None:
    """Refuse changed code as :func:`source` does, before a run; what changes during it is said in its record."""
    source()
    os.environ["CUKDE_DIRTY"] = "1"  # hours of measurements are not lost


@functools.cache  # that of the code that runs, although more is committed during the run
def _head(checkout: Path) -> str:
    """The commit of a checkout; empty for another folder, such as that of installed packages."""
    return (_git(checkout, "rev-parse", "HEAD") or "").strip() if (checkout / ".git").exists() else ""


def _changed(checkout: Path, commit: str) -> list[str]:
    """Tracked files that differ from the commit, without results."""
    names = _git(checkout, "diff", "--name-only", commit, "--", *COUNTED, f":(exclude){_RESULTS}")
    return ["what git cannot tell"] if names is None else names.splitlines()


def _git(folder: Path, *command: str) -> str | None:
    try:
        done = subprocess.run(["git", *command], cwd=folder, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
