"""The option ``--gpu``, with which a command computes on the GPU or ends before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cukde.cli.errors import CommandError


def add_option(parser: Any) -> None:
    """Add ``--gpu`` to a command."""
    parser.add_argument("--gpu", action="store_true", help="compute on the GPU; an error if none works")


def asarray(gpu: bool) -> Callable[[Any], Any]:
    """Return the function that moves an array of the host to the device."""
    if not gpu:
        return lambda a: a
    from cukde.cli import info

    works, state = info.gpu()
    if not works:
        raise CommandError(f"--gpu needs a working GPU: {state}")
    import cupy

    move: Callable[[Any], Any] = cupy.asarray
    return move
