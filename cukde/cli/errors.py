"""The error a command shows to its user, without a traceback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


class CommandError(Exception):
    """Something the user can put right: a wrong argument, file or number. The command exits with 2."""


@contextlib.contextmanager
def file_errors(action: str, path: Path) -> Iterator[None]:
    """Turn a failing file operation into a message: ``action`` is what was tried, as in "read"."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot {action} {path}: {error.strerror or error}") from None
