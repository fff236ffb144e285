"""Conversion of arguments to Dask arrays, and stand-ins by which shapes are checked before anything is computed."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import TaskRef
from dask.base import tokenize
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph

from cukde.core import check as core_check, dispatch
from cukde.core.dask import check
from cukde.core.dask.graph import Unfused
from cukde.core.frames.columns import labels_of, taken
from cukde.core.frames.libraries import library_of
from cukde.core.over_dask import is_dask, meta


def collected(name: str, a: Any, rows_of: Any = None) -> Any:
    """Return a Dask array, also for a Dask data frame, or a plain array of NumPy or CuPy.

    If ``a`` and ``rows_of`` are frames of as many blocks, tasks check that their rows have the same labels.
    """
    if not is_dask(a):
        return core_check.array(name, a, dispatch.backend(a, name))
    if hasattr(type(a), "to_dask_array"):  # a data frame
        frame = _of_numbers(name, a)
        if hasattr(type(rows_of), "to_dask_array") and rows_of is not a and rows_of.npartitions == a.npartitions:
            frame = frame.map_partitions(check.labelled, rows_of, name, meta=frame._meta, align_dataframes=False)
        a = frame.to_dask_array()
    check.collection(name, a, isinstance(a, da.Array))
    return _as_declared(a)


def rows(name: str, a: Any, rows_of: Any = None) -> Any:
    """The same of points, or of numbers of points: of one dimension or two, with a known number of columns."""
    a = collected(name, a, rows_of)
    if is_dask(a):
        check.dimensions(name, a)
        core_check.array(name, np.zeros(1, a.dtype), np)
    return a


def whole_rows(a: da.Array) -> da.Array:
    """Return an array whose blocks have all columns of their rows."""
    return a.rechunk({1: -1}) if a.ndim == 2 and a.numblocks[1] > 1 else a


def _as_declared(a: da.Array) -> da.Array:
    """Return the array with tasks that check each block against the shape and the dtype that the array declares.

    Nothing else tells blocks of fewer rows, after which sums would be divided by the wrong number. The layer is no
    Blockwise of Dask's, which would be fused into each use of a block.
    """
    name = f"declared-{tokenize(a.name, a.chunks, a.dtype)}"
    layer = {
        (name, *place): Unfused(
            (name, *place),
            partial(check.declared, source=a.name, place=place, shape=shape, dtype=a.dtype),
            TaskRef(key),
        )
        for place, shape, key in zip(
            np.ndindex(*a.numblocks), itertools.product(*a.chunks), flatten(a.__dask_keys__()), strict=True
        )
    }
    return da.Array(HighLevelGraph.from_collections(name, layer, [a]), name, a.chunks, dtype=a.dtype, meta=a._meta)


def same(a: Any, b: Any) -> bool:
    """Whether two Dask collections have the same blocks: one object, or two that are made alike."""
    return is_dask(a) and type(a) is type(b) and bool(tokenize(a) == tokenize(b))


def _of_numbers(name: str, frame: Any) -> Any:
    """Return a frame or a series of Dask's whose blocks have the columns that it declares, of NumPy's dtypes.

    Nullable columns, and blocks of other dtypes than declared, become floats.
    """
    sample = frame._meta
    check.collection(name, frame, np.ndim(sample) > 0)  # a sum of a frame has no dimension
    if library_of(sample) is None:
        return frame
    taken(name, sample)  # or an error that names a column
    kinds = _kinds(sample)
    plain = None
    if all(isinstance(kind, np.dtype) for kind in kinds) and len({_promotion(kind) for kind in kinds}) == 1:
        plain = kinds
    like = sample if plain else _as_floats(sample)
    return frame.map_partitions(_numbers_of_block, name, labels_of(sample), plain, meta=like)


def _kinds(frame: Any) -> list[Any]:
    return [frame.dtype] if frame.ndim == 1 else list(frame.dtypes)


def _promotion(dtype: np.dtype) -> str:
    """A name that dtypes share which are promoted to one that has all of their numbers."""
    return "f" if dtype.kind != "b" and (dtype.kind == "f" or dtype.itemsize < 8) else str(dtype)


def _numbers_of_block(block: Any, name: str, labels: tuple[Any, ...] | None, plain: list[np.dtype] | None) -> Any:
    """Return a block of a frame with the declared dtypes, or floats; raise for integers that would be rounded."""
    check.columns(name, labels_of(block), labels)
    if _kinds(block) == plain:
        return block
    core_check.array(name, block, dispatch.backend(block, name))
    return _as_floats(block)


def _as_floats(block: Any) -> Any:
    """Return a frame or a series of numbers with floats, of which some may be missing."""
    if block.ndim == 1:
        return block.astype(_floating(block.dtype))
    return block.astype({label: _floating(kind) for label, kind in zip(block.columns, block.dtypes, strict=True)})


def _floating(dtype: Any) -> np.dtype:
    """The dtype of numbers of which some may be missing."""
    single = dtype.kind == "f" and dtype.itemsize == 4
    return np.dtype(np.float32 if single else np.float64)


def empty_like(a: Any, ndim: int, dtype: np.dtype) -> Any:
    """Return an empty array on the device of ``a``, as the sample of a result's blocks."""
    kind = type(meta(a)) if dispatch.is_gpu_array(meta(a)) else np.ndarray
    return kind((0,) * ndim, dtype=dtype)


def stand_in(a: Any, unknown: bool = False) -> Any:
    """Return an array of the same shape and dtype that takes no memory; unknown sizes become 1.

    With ``unknown`` the number of rows counts as unknown too, as that of an array beside it is.
    """
    if a is None:
        return None
    shape = tuple(1 if math.isnan(size) else size for size in a.shape)
    if unknown and a.ndim:
        shape = (1, *shape[1:])
    return np.broadcast_to(np.zeros((), a.dtype), shape)


def unknown_rows(*arrays: Any) -> bool:
    """Whether any array has an unknown number of rows."""
    return any(a is not None and a.ndim and math.isnan(a.shape[0]) for a in arrays)
