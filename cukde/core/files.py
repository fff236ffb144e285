"""Files that other processes may read or write at the same time."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path


def replace(file: Path, content: bytes) -> None:
    """Write a file such that others, at any time, see the old one or the new one, and make its folder.

    Of several that write at once the last is kept. Raises OSError where that cannot be done; nothing is left then.
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
