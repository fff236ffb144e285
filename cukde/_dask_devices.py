"""Blocks of Dask arrays on the GPUs of one process."""

from __future__ import annotations

from typing import Any

import dask.array as da

from cukde import _dispatch
from cukde._dask_array import collected
from cukde._over_dask import is_dask


def to_gpu(a: Any) -> da.Array:
    """Move the blocks of a Dask array to the GPUs that a process sees, one block of rows after the other to each.

    On a cluster with a GPU a worker that is the worker's own. In one process with several GPUs, under Dask's threads,
    the functions of :mod:`cukde` compute where blocks of data lie: with some blocks on each GPU all of them work, and
    what goes from one to another goes directly.

    Parameters
    ----------
    a : dask.array.Array, or a Dask data frame
        Blocks of NumPy arrays, or of CuPy arrays on any GPU.

    Returns
    -------
    dask.array.Array
        Of the same shape, chunks and dtype, with blocks of CuPy arrays.

    Raises
    ------
    TypeError
        If ``a`` is no collection of Dask's.
    RuntimeError
        If no GPU works here.

    Examples
    --------
    >>> X = cukde.dask.to_gpu(da.from_zarr("data.zarr")).persist()  # doctest: +SKIP
    >>> p = cukde.debias(X, 0.5).map_blocks(cupy.asnumpy).compute()  # doctest: +SKIP
    """
    if not is_dask(a):
        raise TypeError(f"a must be a Dask array or a Dask data frame; got {type(a).__name__}: write cupy.asarray(a)")
    a = collected("a", a)
    gpu = _dispatch.named("gpu")
    return a.map_blocks(_moved, dtype=a.dtype, meta=gpu.xp.empty((0,) * a.ndim, a.dtype))


def _moved(block: Any, block_id: tuple[int, ...] = (0,)) -> Any:
    gpu = _dispatch.named("gpu")
    with gpu.device(block_id[0]):
        out = gpu.asarray(block)
        gpu.synchronize()  # another device may read it
    return out
