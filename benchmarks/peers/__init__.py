"""Rivals: each module offers ``sd_kde(X, Y, h)`` (or others) on CuPy arrays, float32, where its library is there.

KDEpy, ArviZ, fastKDE, scikit-learn, SciPy and pandas compute on the CPU: they take NumPy arrays. ``README.md`` in this
folder has each rival's version, call, modes, and where its settings come from.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

_LONGEST_REASON = 300  # characters

# Module of each rival, and what its functions are called for an operation.
_RIVALS = {
    "Flash-SD-KDE, TF32": ("flash", "{}"),
    "Flash-SD-KDE, TF32, symmetric_atomic": ("flash", "symmetric_{}"),
    "Flash-SD-KDE, TF32, the paper's kernels": ("flash", "paper_{}"),
    "Flash-SD-KDE, fp32_ieee": ("flash", "ieee_{}"),
    "Flash-SD-KDE, fp32_ieee, ordered_splitk": ("flash", "ieee_split_{}"),
    "Flash-SD-KDE, fp32_ieee, symmetric_atomic": ("flash", "ieee_symmetric_{}"),
    # In one dimension, where it has no other precision.
    "Flash-SD-KDE, float32": ("flash", "{}"),
    "Flash-SD-KDE, float32, the paper's kernels": ("flash", "paper_{}"),
    "cuVS": ("cuvs", "{}"),
    "PyKeOps": ("keops", "{}"),
    "PyTorch": ("plain_torch", "{}"),
    "torch.compile": ("plain_torch", "compiled_{}"),
    "CuPy": ("plain_cupy", "{}"),
    "CuPy FFT, grid of 2^12": ("binned_fft", "{}"),
    "CuPy FFT, grid of 2^16": ("binned_fft", "fine_{}"),
    "cuBLAS, sign matrices": ("sign_matrices", "{}"),
    "whole matrix": ("whole_matrix", "{}"),
    "KDEpy": ("kdepy", "{}"),
    "ArviZ": ("arviz_kde", "{}"),
    "fastKDE": ("fast_kde", "{}"),
    "xarray-spatial": ("xarray_spatial", "{}"),
    "scikit-learn": ("scikit_learn", "{}"),
    "scikit-learn, rtol=1e-4": ("scikit_learn", "rtol_{}"),
    "SciPy": ("scipy_stats", "{}"),
    "pandas": ("pandas_corr", "{}"),
    "source kernel": ("source_kernel", "{}"),
}

ANOTHER = frozenset({("SciPy", "kde"), ("fastKDE", "kde")})
"""Rivals and operations whose result is another density: it has no error."""

NAMES = tuple(_RIVALS)
"""Of every rival that :func:`rivals` knows."""

PAGE = Path(__file__).parent / "README.md"
"""Each rival's version, call, modes, and where its settings come from."""

# A call and its error; and, of one too slow to answer them all, the part of the queries that the call takes.
Peer = tuple[Callable[[], Any], float | None] | tuple[Callable[[], Any], float | None, float]


def function(op: str, name: str) -> Callable[..., Any]:
    """A rival's function for an operation; an ImportError where its library is absent."""
    module, called = _RIVALS[name]
    found: Callable[..., Any] = getattr(importlib.import_module(f"benchmarks.peers.{module}"), called.format(op))
    return found


def rivals(
    op: str, names: tuple[str, ...], *arguments: Any, error: Callable[[Any], float | None]
) -> dict[str, Peer | str]:
    """Each rival's call and its error; of one that is absent or fails, the reason."""
    found: dict[str, Peer | str] = {}
    for name in names:
        try:
            rival = function(op, name)
            result = rival(*arguments)
            found[name] = functools.partial(rival, *arguments), None if (name, op) in ANOTHER else error(result)
        except Exception as failed:  # whatever it is, the record says it
            found[name] = reason(failed)
    return found


def reason(error: BaseException) -> str:
    """An exception in one line, without folders of the machine."""
    text = re.sub(r"(?<![\w:])(?:/[\w.+@~-]+)+/", "", f"{type(error).__name__}: {error}")
    return " ".join(text.split())[:_LONGEST_REASON]
