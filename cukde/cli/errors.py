"""Errors that a command shows to its user without a traceback."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path


class CommandError(Exception):
    """An error that the user can correct: a wrong argument, file or number. The command exits with 2."""


@contextlib.contextmanager
def file_errors(action: str, path: Path) -> Iterator[None]:
    """Turn a failing file operation into a message; ``action`` names it, as in "read"."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot {action} {path}: {error.strerror or error}") from None


@contextlib.contextmanager
def of_data() -> Iterator[None]:
    """Turn what the library says of wrong data, for which it raises no other errors, into a message."""
    try:
        yield
    except ValueError as error:
        raise CommandError(str(error)) from error


def note(text: str) -> None:
    """Tell the user what the result does not show."""
    print(f"cukde: note: {text}", file=sys.stderr)


def number(expected: str, valid: Callable[[float], bool]) -> Callable[[str], float]:
    """Return a type of options for finite numbers that are ``valid``; ``expected`` describes these."""

    def parsed(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = float(text)
            if math.isfinite(value) and valid(value):
                return value
        raise argparse.ArgumentTypeError(f"expected {expected}; got {text!r}")

    return parsed
