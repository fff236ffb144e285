"""What results come back as: by default as the queries came, or what :func:`set_output` says."""

from __future__ import annotations

import importlib.util
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Literal

from cukde.core import check as core_check

KINDS = ("default", "array", "pandas", "polars")

forced: str | None = None
"""What results with a row axis come back as, of all calls of this process; None is as the queries came."""


def asked_for(caller: Any) -> bool:
    """Whether a call, by the frame of its caller, is to return something else; calls within the library are not."""
    return forced is not None and not caller.f_globals.get("__name__", "").startswith("cukde.")


def set_output(kind: Literal["default", "array", "pandas", "polars"] = "default") -> AbstractContextManager[Any]:
    """Choose the type of results that have a number, or a row, for each row of an argument.

    Parameters
    ----------
    kind : {"default", "array", "pandas", "polars"}
        "default": the type of the argument. Queries in a frame or a series of pandas, polars, cuDF or Arrow give a
        series, or a frame if there are several numbers for each row, with their index. Arrays of PyTorch, JAX and other
        libraries of the array API standard give arrays of that library on the same device; if it does not have the
        dtype, as JAX without ``jax_enable_x64`` has no float64, they give NumPy arrays. "array": NumPy or CuPy
        arrays. "pandas", "polars": series and frames of that library on the host, also for arrays.

    Returns
    -------
    context manager
        At the end of a ``with`` statement the previous choice is restored. Without one, ignore it: the choice stays.

    Raises
    ------
    ValueError
        For another kind.
    ImportError
        For a library that is not installed.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> with cukde.set_output("pandas"):
    ...     cukde.kde(np.array([0.0, 1.0]), np.array([0.5]), 1.0).round(4)
    0    0.3521
    Name: density, dtype: float64

    Notes
    -----
    The choice holds for all threads of the process. It does not affect Dask arrays or :class:`KernelDensity`, whose
    results are arrays, like scikit-learn's. Numbers are exactly those of arrays (``tests/core/test_entry.py``). Cost:
    if a GPU array becomes a series on the host, a copy that waits for the GPU; otherwise almost nothing.
    """
    core_check.option("kind", kind, KINDS)
    if kind in ("pandas", "polars") and importlib.util.find_spec(kind) is None:
        raise ImportError(f'cukde.set_output("{kind}") needs {kind}: pip install {kind}')
    restored = ExitStack()
    restored.callback(_force, forced)
    _force(None if kind == "default" else kind)
    return restored


def _force(kind: str | None) -> None:
    global forced
    forced = kind
