"""Blocks of Dask arrays on GPUs: their devices, and synchronisation of the tasks that compute there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import dask.array as da
import numpy as np

from cukde.core import dispatch
from cukde.core.dask.arrays import collected
from cukde.core.over_dask import is_dask


def to_gpu(a: da.Array) -> da.Array:
    """Copy the blocks of a Dask array to the GPUs that a process sees, distributing blocks of rows in turn.

    On a cluster with one GPU for each worker, blocks go to the worker's GPU. In one process with several GPUs and
    Dask's threads, the functions of :mod:`cukde` compute on the device of each block of data. So all GPUs work, and
    arrays are copied directly between them.

    Parameters
    ----------
    a : dask.array.Array, or a Dask data frame
        With blocks of NumPy arrays, or of CuPy arrays on any GPU.

    Returns
    -------
    dask.array.Array
        Of the same shape, chunks and dtype, with blocks of CuPy arrays.

    Raises
    ------
    TypeError
        If ``a`` is not a Dask collection.
    RuntimeError
        If no GPU works here.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.zeros((6, 2)), chunks=(3, 2))
    >>> try:
    ...     kept = cukde.dask.to_gpu(X).chunks
    ... except RuntimeError:  # where no GPU works
    ...     kept = X.chunks
    >>> kept
    ((3, 3), (2,))

    Notes
    -----
    Copies are exact. The cost is one copy of each block, from the host or from another GPU, when it is computed.
    """
    if not is_dask(a):
        raise TypeError(f"a must be a Dask array or a Dask data frame; got {type(a).__name__}: write cupy.asarray(a)")
    a = collected("a", a)
    gpu = dispatch.named("gpu")
    return a.map_blocks(_moved, dtype=a.dtype, meta=gpu.xp.empty((0,) * a.ndim, a.dtype))


@contextlib.contextmanager
def computing(a: Any) -> Iterator[ModuleType]:
    """Yield the backend of an array, on its device, and wait for the device at the end.

    Launches on a GPU run ahead of its work. Without the wait, copies of a result would queue behind all later launches,
    and another GPU, or another thread with a stream of its own, might read an unfinished result.

    Floating-point errors are ignored: a task runs in a thread of its own, or in one of the caller's.
    """
    backend = dispatch.backend(a)
    with backend.device_of(a), np.errstate(all="ignore"):
        yield backend
        backend.synchronize()


def _moved(block: Any, block_id: tuple[int, ...] = (0,)) -> Any:
    gpu = dispatch.named("gpu")
    with gpu.device(block_id[0]):
        out = gpu.asarray(block)
        gpu.synchronize()  # another device may read it
    return out
