"""The folder where what tests compile is kept for later runs, by a hash of all that it depends on."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def folder() -> Path:
    """Return this user's folder, which is made where it is not there yet."""
    owner = os.getuid() if hasattr(os, "getuid") else 0  # as Windows says of every file
    found = Path(tempfile.gettempdir()) / f"cukde-compiled-{owner}"
    found.mkdir(mode=0o700, exist_ok=True)
    if found.stat().st_uid != owner:
        raise PermissionError(f"{found} belongs to somebody else; remove it or set TMPDIR to a folder of yours")
    return found
