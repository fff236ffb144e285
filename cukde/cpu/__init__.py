"""The CPU backend: NumPy arrays, Numba kernels, BLAS for the products."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from cukde._host import asarray
from cukde.cpu import (
    _boxes,
    _conv1d_activations,
    _conv1d_rows,
    _cross_validation_tiles,
    _distribution_sums,
    _expansions,
    _float16,
    _gram_blocks,
    _inversions,
    _kernel_tiles,
    _locate,
    _morton,
    _outward,
    _plane,
    _point_tree,
    _points,
    _product_tiles,
    _ranks,
    _reduction,
    _sign_bits,
    _stack_blocks,
    _tiles,
    _transpose,
    conv1d,
    cross_validation,
    density,
    density_1d,
    grids,
    kendall,
    kernels,
    piecewise,
    products,
    stacks,
    truncated,
)

__all__ = [
    "asarray",
    "asnumpy",
    "compiled",
    "conv1d",
    "cross_validation",
    "density",
    "density_1d",
    "device_key",
    "device_of",
    "erfcx",
    "grids",
    "kendall",
    "kernels",
    "look",
    "mean",
    "piecewise",
    "products",
    "release_memory",
    "stacks",
    "synchronize",
    "truncated",
    "xp",
]

xp = np


def asnumpy(a: Any) -> np.ndarray:
    """Return the array itself: it is on the host."""
    return np.asarray(a)


def device_of(a: Any) -> contextlib.AbstractContextManager[Any]:
    """Nothing to choose: there is one CPU."""
    return contextlib.nullcontext()


def device_key() -> Hashable:
    """What tells apart things made for the current device: there is one CPU."""
    return "cpu"


def synchronize() -> None:
    """Nothing to wait for: what is called here has been done when it returns."""


def erfcx(a: Any) -> Any:
    """Scaled complementary error function, exp(a^2) erfc(a)."""
    from scipy import special

    return special.erfcx(a)


def compiled() -> list[str]:
    """Names of the Numba functions that have been compiled, once for each specialisation."""
    functions = {
        name: f
        for module in (
            _points,
            _tiles,
            _gram_blocks,
            _product_tiles,
            _stack_blocks,
            _kernel_tiles,
            _cross_validation_tiles,
            _boxes,
            _expansions,
            _outward,
            _distribution_sums,
            _morton,
            _plane,
            _point_tree,
            density_1d,
            grids,
            _ranks,
            _inversions,
            _sign_bits,
            kendall,
            _locate,
            _reduction,
            _float16,
            piecewise,
            _conv1d_activations,
            _conv1d_rows,
            _transpose,
        )
        for name, f in vars(module).items()
    }
    return [name for name, f in functions.items() for _ in getattr(f, "signatures", ())]


def release_memory() -> None:
    """Nothing to give back: NumPy keeps no memory for later."""


def mean(A: np.ndarray) -> np.ndarray:
    """Mean of the rows, float64."""
    out: np.ndarray = A.mean(axis=0, dtype=np.float64)
    return out


def look(
    X: np.ndarray, Y: np.ndarray | None, centre: np.ndarray | None, others: Sequence[np.ndarray] = ()
) -> tuple[float, list[bool]]:
    """Largest squared distance of the points to ``centre``, and of each array whether all entries are finite.

    Without a centre the distance is 0. The flags are those of X, of Y where there is one, and of the others.
    """
    radius, flags = 0.0, []
    for A in [X] if Y is None else [X, Y]:
        if centre is None:
            flags.append(bool(np.isfinite(A).all()))
            continue
        distance, finite = _points.look(A, centre)
        radius = max(radius, distance)
        flags.append(bool(finite))
    return radius, flags + [bool(np.isfinite(a).all()) for a in others]
