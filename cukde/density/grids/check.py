"""Errors of the coordinates that densities on product grids are asked at, and of how they are to be computed."""

from __future__ import annotations

from typing import Any

from cukde.core import check as core_check
from cukde.core.over_dask import is_dask

ALGORITHMS = ("auto", "exact", "fft")
MOST_COLUMNS = 3  # of a grid that is transformed


def plain(**arrays: Any) -> None:
    """Raise for collections of Dask's among arguments of which no block can do without the whole."""
    for name, a in arrays.items():
        if is_dask(a) or (isinstance(a, list | tuple) and any(map(is_dask, a))):
            raise TypeError(f"{name} must be a plain array; got a Dask collection: write {name}.compute()")


def algorithm(name: Any, d: int, *, log: bool) -> None:
    """Raise for an unknown way to compute, and for what transforms do not do."""
    core_check.option("algorithm", name, ALGORITHMS)
    if name == "fft" and d > MOST_COLUMNS:
        raise ValueError(
            f'algorithm="fft" takes data of up to {MOST_COLUMNS} columns; got {d}: write algorithm="exact"'
        )
    if name == "fft" and log:
        raise ValueError(
            'log must be False beside algorithm="fft", whose errors are relative to the largest density: '
            'write algorithm="exact"'
        )


def planned(choice: Any) -> None:
    """Raise where no transform was planned that was asked for."""
    if choice is None:
        raise ValueError(
            'algorithm="fft" needs a grid of a few cells a bandwidth over all coordinates, and few images of the data '
            "over bounds and periods, and one of them is too large here: write "
            'algorithm="exact", or take axes that span fewer bandwidths'
        )
