"""Errors of calls of the distribution function, raised before anything is computed."""

from __future__ import annotations

from typing import Any

from cukde._over_dask import is_dask


def one_column(d: int) -> None:
    """Raise for data of several columns."""
    if d > 1:
        raise ValueError(
            f"X must have one column for a distribution function; got {d}: call it for each column, "
            "e.g. cdf(X[:, 0], Y[:, 0], h)"
        )


def in_memory(**arrays: Any) -> None:
    """Raise for collections of Dask's."""
    for name, a in arrays.items():
        if is_dask(a):
            raise TypeError(
                f"{name} must be an array in memory for a distribution function; got a Dask collection: "
                f"write {name}.compute()"
            )
