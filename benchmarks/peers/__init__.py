"""Rivals: each module offers ``sd_kde(X, Y, h)`` (or others) on CuPy arrays, float32, where its library is there.

KDEpy, scikit-learn, SciPy and pandas compute on the CPU: they take NumPy arrays.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from typing import Any

_LONGEST_REASON = 300  # characters

# Module of each rival, and what its functions are called for an operation.
_RIVALS = {
    "Flash-SD-KDE": ("flash", "{}"),
    "Flash-SD-KDE (fp32_ieee)": ("flash", "ieee_{}"),
    "Flash-SD-KDE (fp32_ieee, ordered_splitk)": ("flash", "ieee_split_{}"),
    "cuVS": ("cuvs", "{}"),
    "PyKeOps": ("keops", "{}"),
    "PyTorch": ("plain_torch", "{}"),
    "torch.compile": ("plain_torch", "compiled_{}"),
    "torch.compile, 4,096 rows at a time": ("plain_torch", "chunked_{}"),
    "CuPy": ("plain_cupy", "{}"),
    "whole matrix": ("whole_matrix", "{}"),
    "KDEpy": ("kdepy", "{}"),
    "scikit-learn": ("scikit_learn", "{}"),
    "scikit-learn, rtol=1e-4": ("scikit_learn", "rtol_{}"),
    "SciPy": ("scipy_stats", "{}"),
    "pandas": ("pandas_corr", "{}"),
    "source kernel": ("source_kernel", "{}"),
}

# A call and its error; and, of one too slow to answer them all, the part of the queries that the call takes.
Peer = tuple[Callable[[], Any], float | None] | tuple[Callable[[], Any], float | None, float]


def rivals(
    op: str, names: tuple[str, ...], *arguments: Any, error: Callable[[Any], float | None]
) -> dict[str, Peer | str]:
    """Each rival's call and its error; of one that is absent or fails, the reason."""
    found: dict[str, Peer | str] = {}
    for name in names:
        module, function = _RIVALS[name]
        try:
            rival = getattr(importlib.import_module(f"benchmarks.peers.{module}"), function.format(op))
            found[name] = functools.partial(rival, *arguments), error(rival(*arguments))
        except Exception as failed:  # whatever it is, the record says it
            found[name] = reason(failed)
    return found


def reason(error: BaseException) -> str:
    """An exception in one line, without folders of the machine."""
    text = re.sub(r"(?<![\w:])(?:/[\w.+@~-]+)+/", "", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:_LONGEST_REASON]
