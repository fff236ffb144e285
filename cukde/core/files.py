"""Atomic replacement of files that other processes may read or write at the same time."""

from __future__ import annotations

import contextlib
import os
import sys
import time
import uuid
from pathlib import Path

_TRIES, _PAUSE = 10, 0.01  # and seconds between them


def replace(file: Path, content: bytes) -> None:
    """Write a file atomically, so that others see the old or the new content, and make its folder.

    If several write at once, the last one wins. On failure it raises OSError and leaves no file behind.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{uuid.uuid4().hex[:16]}.part")
    try:
        new.write_bytes(content)
        _move(new, file)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def _move(new: Path, file: Path) -> None:
    """Put a file in the place of another. Windows refuses that while somebody has the other one open, so it waits."""
    for tries_left in reversed(range(_TRIES)):
        try:
            os.replace(new, file)
            return
        except PermissionError:
            if sys.platform != "win32" or not tries_left:
                raise
            time.sleep(_PAUSE)
