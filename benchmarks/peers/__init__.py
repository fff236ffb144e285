"""Rivals: each module offers ``sd_kde(X, Y, h)`` (or others) on CuPy arrays, float32, where its library is there.

KDEpy computes on the CPU: it takes NumPy arrays.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from benchmarks import record

# Module of each rival, and what its functions are called for an operation.
_RIVALS = {
    "Flash-SD-KDE": ("flash", "{}"),
    "PyKeOps": ("keops", "{}"),
    "PyTorch": ("plain_torch", "{}"),
    "torch.compile": ("plain_torch", "compiled_{}"),
    "CuPy": ("plain_cupy", "{}"),
    "KDEpy": ("kdepy", "{}"),
}

# A call and its error; and, of one too slow to answer them all, the part of the queries that the call takes.
Peer = tuple[Callable[[], Any], float | None] | tuple[Callable[[], Any], float | None, float]


def rivals(
    op: str, names: tuple[str, ...], X: Any, Y: Any, h: float, error: Callable[[Any], float]
) -> dict[str, Peer | str]:
    """Each rival's call and its error; of one that is absent or fails, the reason."""
    found: dict[str, Peer | str] = {}
    for name in names:
        module, function = _RIVALS[name]
        try:
            rival = getattr(importlib.import_module(f"benchmarks.peers.{module}"), function.format(op))
            found[name] = functools.partial(rival, X, Y, h), error(rival(X, Y, h))
        except Exception as reason:  # whatever it is, the record says it
            found[name] = record.reason(reason)
    return found
