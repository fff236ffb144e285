"""The stages of a call on Dask arrays: its passes, its tasks, and the bytes that are moved and merged.

The graph is that of :mod:`cukde.dask`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import check as core_check
from cukde.core.dask import chunks as dask_chunks
from cukde.density import check as density_check

Sizes = Mapping[str, Any]
Seconds = Callable[[str, Sizes], float]
"""Seconds of an operation on one worker."""

_OUTPUTS = {
    "debias": "moments",
    "density_and_score": "moments",
    "kde": "sum",
    "kernel_sum": "values",
    "laplace_kde": "laplace",
    "score": "moments",
    "sd_kde": "sum",
}

_ONE_WAY = "weighted", "local", "deterministic"  # for which a pair of blocks is taken both ways

OPERATIONS = tuple(_OUTPUTS)
"""Operations that are modelled on Dask arrays."""

MOST_BLOCKS = 2**16


class Blocks(NamedTuple):
    """Numbers of blocks."""

    data: int
    queries: int
    itself: bool  # self-interaction (Y = X)


class Pass(NamedTuple):
    """Pairs of blocks that take equally long."""

    pairs: int
    seconds: float


class Stage(NamedTuple):
    """Passes over pairs of blocks, and merges of their results; the next stage waits for all of them."""

    name: str
    passes: tuple[Pass, ...]
    tasks: int
    blocks: int  # of a worker
    bytes_of_blocks: float
    sums: int  # results of all passes
    bytes_of_sums: float
    merged: float  # bytes that merges read
    last: float  # bytes that the last pass leaves to a merge elsewhere


def blocks(op: str, sizes: Sizes, data: int | None, queries: int | None, *, gpu: bool) -> Blocks:
    """Count blocks: the given ones, or by the rule for plain arrays."""
    itself = op == "debias" or bool(sizes.get("at_data", False))
    n = int(sizes["n"])
    m = n if itself else int(sizes["m"])
    rows = dask_chunks.rows_of_block(n, m, max(int(sizes["d"]), int(sizes.get("k", 1))), gpu=gpu)
    k = -(-n // rows) if data is None else core_check.count("blocks", data)
    if itself:
        if queries is not None and core_check.count("query_blocks", queries) != k:
            raise ValueError(
                f"query_blocks must be left out, or {k} like blocks: the queries are the data; got {queries}"
            )
        q = k
    else:
        q = max(1, -(-m // rows)) if queries is None else core_check.count("query_blocks", queries)
    for name, count, size in (("blocks", k, n), ("query_blocks", q, m)):
        if count > max(1, size):
            raise ValueError(f"{name} must be at most {max(1, size)}, a row each; got {count}")
        if count > MOST_BLOCKS:
            raise ValueError(
                f"{name} must be at most {MOST_BLOCKS:,}; got {count:,} for {size:,} rows: make them larger"
            )
    return Blocks(k, q, itself)


def stages(op: str, sizes: Sizes, divided: Blocks, workers: int, seconds: Seconds) -> list[Stage]:
    """The stages of an operation of these sizes."""
    if op == "sd_kde":
        share = sizes.get("share")
        of_score, of_density = share if isinstance(share, Sequence) else (share, share)
        shared, sizes = {**sizes, "share": of_score}, {**sizes, "share": of_density}
        first = _pass("debias", "score", shared, divided._replace(queries=divided.data, itself=True), workers, seconds)
        # The debiased data, in double precision, are not the queries, even where the data are.
        second = _ordered("density", "kde", sizes, divided._replace(itself=False), workers, seconds, itemsize=8)
        return [first, second]
    return [_pass("sums", "score" if op == "debias" else op, sizes, divided, workers, seconds)]


def _pass(name: str, op: str, sizes: Sizes, divided: Blocks, workers: int, seconds: Seconds) -> Stage:
    asymmetric = _OUTPUTS[op] != "moments" or sizes["d"] == 1 or any(sizes.get(name) for name in _ONE_WAY)
    if divided.itself and divided.data > 1 and not asymmetric:
        return _unordered(name, op, sizes, divided, workers, seconds)
    return _ordered(name, op, sizes, divided, workers, seconds)


def _ordered(
    name: str, op: str, sizes: Sizes, divided: Blocks, workers: int, seconds: Seconds, itemsize: int | None = None
) -> Stage:
    """Every block of data at every block of queries; with ``itemsize`` the data come from the stage before.

    Tasks prepare blocks, run passes and merges, and finish results.
    """
    k, q = divided.data, divided.queries
    n = -(-int(sizes["n"]) // k)
    m = n if divided.itself else -(-int(sizes.get("m", sizes["n"])) // q)
    options = _options(sizes)
    passes = [Pass(k * (q - divided.itself), seconds(op, options | {"n": n, "m": m}))]
    if divided.itself:
        passes.append(Pass(k, seconds(op, options | {"n": n, "m": n, "at_data": True})))
    taken = dask_chunks.blocks_of_task(k * q)
    width = -(-k // taken)  # tasks of a block of queries
    merges, merged = _tree(width)
    merged += 2 * (k - width)  # within a task, as they come
    x, y = n * _bytes_of_row(sizes, itemsize), m * _bytes_of_row(sizes)
    sums = m * _bytes_of_sums(op, sizes)
    turns = -(-q * width // workers)
    data, queries = min(k, turns * taken), min(q, turns)
    if divided.itself:
        data, queries = min(k, data + queries), 0
    return Stage(
        name,
        tuple(passes),
        tasks=(k if itemsize is None else 0) + (0 if divided.itself else q) + q * (width + merges + 1),
        blocks=data + queries,
        bytes_of_blocks=data * x + queries * y,
        sums=q * width,
        bytes_of_sums=q * width * sums,
        merged=q * merged * sums,
        last=sums,
    )


def _unordered(name: str, op: str, sizes: Sizes, divided: Blocks, workers: int, seconds: Seconds) -> Stage:
    """Self-interaction of every block of data, and each pair of different blocks once, for the sums of both.

    Such a pair takes the time of a pass over both blocks, less that of a pass over each of them.
    """
    k = divided.data
    pairs = k * (k - 1) // 2
    n = -(-int(sizes["n"]) // k)
    options = _options(sizes)
    own, both = (seconds(op, options | {"n": r, "m": r, "at_data": True}) for r in (n, 2 * n))
    mutual = max(both - 2 * own, 0.0)
    x = n * _bytes_of_row(sizes)
    sums, of_pair = n * _bytes_of_sums(op, sizes), n * _bytes_of_sums(op, sizes, of_pair=True)
    merges, merged = _tree(k)  # of a block's own sums with those of every other block
    held = min(k, 2 * -(-pairs // workers))
    return Stage(
        name,
        (Pass(pairs, mutual), Pass(k, own)),
        tasks=k + k + 3 * pairs + k * (merges + 1),  # the two results of a pair are separated
        blocks=held,
        bytes_of_blocks=held * x,
        sums=k + 2 * pairs,
        bytes_of_sums=k * sums + 2 * pairs * of_pair,
        merged=k * merged * sums,
        last=2 * of_pair,
    )


def _options(sizes: Sizes) -> dict[str, Any]:
    return {name: value for name, value in sizes.items() if name not in ("n", "m", "at_data")}


def _bytes_of_row(sizes: Sizes, itemsize: int | None = None) -> int:
    """Bytes of a row of a block: coordinates, the logarithm of the weight, the local factor, values."""
    beside = 8 * (bool(sizes.get("weighted", False)) + bool(sizes.get("local", False)))
    return (_itemsize(sizes) if itemsize is None else itemsize) * (sizes["d"] + sizes.get("k", 0)) + beside


def _bytes_of_sums(op: str, sizes: Sizes, *, of_pair: bool = False) -> int:
    """Bytes of a query's reference, total and moments: double, but single for two different blocks in a single pass."""
    columns = {"sum": 0, "laplace": 1, "moments": sizes["d"], "values": sizes.get("k", 1)}[_OUTPUTS[op]]
    return 8 + (_itemsize(sizes) if of_pair else 8) * (1 + columns)


def _itemsize(sizes: Sizes) -> int:
    """Bytes of a coordinate in a pass."""
    dtype = density_check.result_dtype(np.empty(0, sizes.get("dtype", "float32")))
    return 8 if density_check.precision(sizes.get("precision"), dtype) == "float64" else dtype.itemsize


def _tree(width: int) -> tuple[int, int]:
    """Tasks of a tree that merges so many sums of a block of queries, and the number of sums that they read."""
    tasks = taken = 0
    while width > 1:
        taken += width
        width = -(-width // dask_chunks.AT_ONCE)
        tasks += width
    return tasks, taken
