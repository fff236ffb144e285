"""CuPy's cache of compiled kernels on disk, where it cannot be used: kernels are then kept in memory alone.

Files in it begin with a digest and are put in place whole, so that CuPy passes over damaged ones and processes may
compile at once. A folder that cannot be made or written to, however, is an error of its import, or of whatever compiles
next, its own kernels included.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import sys
import tempfile
import threading
import warnings
from pathlib import Path

_FOLDER, _IN_MEMORY = "CUPY_CACHE_DIR", "CUPY_CACHE_IN_MEMORY"

_giving_up = threading.Lock()


@functools.cache
def ensure() -> None:
    """Before CuPy is imported for the first time, or used: see to it that it can compile."""
    installed = sys.modules.get("cupy") is not None or importlib.util.find_spec("cupy") is not None
    if os.environ.get(_IN_MEMORY) == "1" or not installed:
        return
    folder = Path(os.environ.get(_FOLDER) or "~/.cupy/kernel_cache")
    try:
        folder = folder.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()  # permissions do not tell all: a file system may be read-only
    except (OSError, RuntimeError) as error:  # the latter of a user without a home
        give_up(error)


def give_up(error: Exception) -> None:
    """Keep kernels in memory from now on, in this process and its children, and warn of it."""
    with _giving_up:  # several threads compile
        if os.environ.get(_IN_MEMORY) == "1":
            return
        os.environ[_IN_MEMORY] = "1"
    if "cupy" not in sys.modules:
        # CuPy 14.2 makes the folder when it is imported, even where it then has no use for it.
        with contextlib.suppress(OSError):
            os.environ[_FOLDER] = tempfile.gettempdir()
    warnings.warn(
        f"compiled kernels are not kept for the next process, which takes about a second for each: {error}; name a "
        f"folder for them by the environment variable {_FOLDER}",
        stacklevel=2,
    )
