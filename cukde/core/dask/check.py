"""Checks of Dask collections: of shapes when the graph is built, and of the values of a block when it is computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch

_ROWS_NAMED = 5
_NAMED = 12


def collection(name: str, a: Any, is_array: bool) -> None:
    """Raise for a Dask collection that is neither an array nor a data frame."""
    if not is_array:
        raise TypeError(
            f"{name} must be a Dask array, a Dask data frame or a plain array; got {type(a).__name__}: "
            "make an array of it first, e.g. with dask.array.from_delayed"
        )


def plain(name: str, is_collection: bool) -> None:
    """Raise for a Dask collection in place of a plain number or array."""
    if is_collection:
        raise TypeError(f"{name} must be a number or a plain array; got a Dask collection: write {name}.compute()")


def dimensions(name: str, a: Any) -> None:
    """Raise for a Dask array with an unknown number of columns, or with no or too many dimensions."""
    if a.ndim not in (1, 2):
        raise ValueError(f"{name} must have shape (rows, columns), or (rows,) for one dimension; got {a.shape}")
    if a.ndim == 2 and a.shape[1] != a.shape[1]:  # NaN
        raise ValueError(f"{name} must have a known number of columns; write {name}.compute_chunk_sizes()")


def sizes(name: str, shape: tuple[float, ...], *, first: bool) -> None:
    """Raise for unknown sizes, except with ``first`` of the first axis."""
    if any(size != size for size in shape[1 if first else 0 :]):  # NaN
        raise ValueError(f"{name} must have known sizes; got shape {shape}: write {name}.compute_chunk_sizes()")


def no_output(out: Any) -> None:
    """Raise for an output array, since nothing is computed yet."""
    if out is not None:
        raise TypeError("out must be None beside Dask arrays, which are computed later; write dask.array.store(y, out)")


def declared(block: Any, source: str, place: tuple[int, ...], shape: tuple[float, ...], dtype: np.dtype) -> Any:
    """Return a block of the array ``source`` if it has the declared shape, NaN if unknown, and no wider numbers.

    Lists, frames and arrays of other libraries become arrays.
    """
    if not isinstance(block, np.ndarray) and not dispatch.is_gpu_array(block):
        block = core_check.array(f"block {place} of {source!r}", block, dispatch.backend(block))
    found = np.shape(block)
    if len(found) != len(shape) or any(size != said for size, said in zip(found, shape, strict=True) if said == said):
        raise ValueError(
            f"blocks of a Dask array must have the shapes that it declares: block {place} of {source!r} has shape "
            f"{found}, and the array declares {shape}: call compute_chunk_sizes() of that array first"
        )
    own = getattr(block, "dtype", dtype)
    arithmetic = dtype if dtype.kind == "f" else np.dtype(np.float64)  # of which results will be
    if own != dtype and own.kind in "biufc" and not np.can_cast(own, arithmetic):
        raise TypeError(
            f"blocks of a Dask array must have the dtype that it declares: block {place} of {source!r} has {own}, and "
            f"the array declares {dtype}: give the function that makes its blocks dtype={own.name!r}"
        )
    return block


def columns(name: str, labels: tuple[Any, ...] | None, declared: tuple[Any, ...] | None) -> None:
    """Raise for a block of a frame with other columns than the frame declares, or in another order."""
    if labels is not None and declared is not None and labels != declared:
        raise ValueError(
            f"{name} must have the columns that a Dask data frame declares in each of its blocks, in their order; a "
            f"block has {list(labels[:_NAMED])} and the frame declares {list(declared[:_NAMED])}: choose them in the "
            "function that makes the blocks"
        )


def labelled(block: Any, rows_of: Any, name: str) -> Any:
    """Return a block of a frame if its rows have the labels of those that they belong to."""
    if len(block) == len(rows_of) and not block.index.equals(rows_of.index):  # an error of lengths comes later
        own, others = (a.index[:_ROWS_NAMED].tolist() for a in (block, rows_of))
        raise ValueError(
            f"{name} must have the labels of the rows beside it, in their order, in each block of a Dask data frame; "
            f"got {own} beside {others}: take both from one frame, or write {name}.to_dask_array() to go by position"
        )
    return block


def alignable(name: str, sizes_known: bool, blocks: int | None, blocks_of_data: int, *, of: str = "X") -> None:
    """Raise if rows cannot be aligned with those of X: block sizes are unknown and the numbers of blocks differ."""
    if not sizes_known and blocks != blocks_of_data:
        got = "a plain array" if blocks is None else f"{blocks} blocks"
        raise ValueError(
            f"{name} must have the {blocks_of_data} blocks of {of} where the sizes of blocks are not known; got {got}: "
            f"write {of}.compute_chunk_sizes() first, and the same of other arrays from data frames"
        )


@contextmanager
def of_block(name: str, number: int) -> Iterator[None]:
    """Add the number of the block to errors about its values."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"{error} (block {number} of {name})") from None


def finite(name: str, number: int, rows: list[int], start: int | None) -> None:
    """Raise for rows of a block with NaN or infinity; ``start`` is the block's first row in the array, if known."""
    first = rows[:_ROWS_NAMED]
    of_array = "" if start is None else f" (rows {', '.join(str(start + row) for row in first)} of the array)"
    raise ValueError(
        f"{name} must be finite; block {number} holds NaN or infinity in {len(rows)} of its rows, the first: "
        f"{', '.join(map(str, first))}{of_array}: drop or fill those rows"
    )


def some_data(rows: float) -> None:
    """Raise if all blocks turn out to be empty."""
    if rows == 0:
        raise ValueError("X must have at least one row; all of its blocks are empty")


def divisible(rows: int, least: int, reason: str) -> None:
    """Raise if memory ran out, with that ``reason``, at a pair of blocks too small to split."""
    if rows <= least:
        raise MemoryError(
            f"memory ran out at parts of {rows} rows, which are not cut further: free memory that others hold, let "
            f"fewer threads or workers share it, or make blocks smaller, which are held as a whole ({reason})"
        )
