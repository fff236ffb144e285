"""Atomic replacement of files that other processes may read or write at the same time."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def replace(file: Path, content: bytes) -> None:
    """Write a file atomically, so that others see the old or the new content, and make its folder.

    If several write at once, the last one wins. On failure it raises OSError and leaves no file behind.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{uuid.uuid4().hex[:16]}.part")
    try:
        new.write_bytes(content)
        os.replace(new, file)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)
        raise
