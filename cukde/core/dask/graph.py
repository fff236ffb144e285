"""Layers of a Dask graph that have one task for each block of rows, whose results may be anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from cukde.core.dask.chunks import AT_ONCE, blocks_of_task

Task = tuple[Any, ...]
"""A function and its arguments, some of them keys of other tasks."""

# Groups of blocks that are taken in unordered pairs, beyond which a group has several blocks: 528 pairs.
_MANY_GROUPS = 32


class Blocks:
    """Results of one layer of tasks; ``token`` says all that they depend on, and makes their names."""

    def __init__(self, stage: str, tasks: Sequence[Task], dependencies: Sequence[Any], *token: Any) -> None:
        self.name = f"cukde-{stage}-{tokenize(*(of.name for of in dependencies), *token)}"
        self.count = len(tasks)
        layer = {(self.name, i): task for i, task in enumerate(tasks)}
        self._graph = HighLevelGraph.from_collections(self.name, layer, dependencies)

    @property
    def keys(self) -> list[tuple[str, int]]:
        """Names of the results."""
        return [(self.name, i) for i in range(self.count)]

    def __dask_graph__(self) -> HighLevelGraph:
        return self._graph

    def __dask_layers__(self) -> tuple[str]:
        return (self.name,)


def each(
    stage: str, function: Callable[..., Any], *blocks: Blocks, extra: Blocks | None = None, **options: Any
) -> Blocks:
    """Call a function on the blocks of one or several layers side by side, and on the only result of ``extra``."""
    also = () if extra is None else (extra.keys[0],)
    call = partial(function, **options)
    tasks = [(call, *keys, *also) for keys in zip(*(of.keys for of in blocks), strict=True)]
    dependencies = [*dict.fromkeys(blocks), *(() if extra is None else (extra,))]
    return Blocks(stage, tasks, dependencies, [of.name for of in blocks], function, options)


def gathered(stage: str, function: Callable[..., Any], blocks: Blocks, **options: Any) -> Blocks:
    """Call a function once, on the list of all results of a layer."""
    return Blocks(stage, [(partial(function, **options), blocks.keys)], [blocks], function, options)


def crossed(
    stage: str,
    function: Callable[..., Any],
    merge: Callable[[list[Any]], Any],
    rows: Blocks,
    columns: Blocks,
    **options: Any,
) -> Blocks:
    """Call a function on each block of ``rows`` and some of ``columns`` at a time, and merge over the columns.

    Merging is done by a tree, which keeps few results in memory at a time. Its order is that of the blocks.
    """
    call = partial(function, **options)
    taken = blocks_of_task(rows.count * columns.count)
    tasks: list[Task] = [(call, row, some) for row in rows.keys for some in _stretches(columns.keys, taken)]
    token = [rows.name, columns.name, function, options]
    level = Blocks(stage, tasks, list(dict.fromkeys((rows, columns))), *token)
    return _merged(level, rows.count, merge)


def unordered(
    stage: str,
    among: Callable[..., Any],
    between: Callable[..., Any],
    merge: Callable[[list[Any]], Any],
    blocks: Blocks,
    **options: Any,
) -> Blocks:
    """Call functions on each unordered pair of blocks once, and merge for each block what belongs to it.

    ``among`` takes a list of blocks and returns, as the only one of a tuple, a list: for each block the result of all.
    ``between`` takes two lists and returns two: for each block of one list the result of all of the other. Where there
    are many blocks lists have several, so that tasks are few and little travels. What is returned is taken apart where
    it lies, and merged by the tree of :func:`crossed`, in the order of the blocks.

    A list is first, of the two of a task, with those that follow it, round to itself, up to the opposite one: that is
    as often as any other, or once less.
    """
    size = min(AT_ONCE // 2, -(-blocks.count // _MANY_GROUPS))
    groups = _stretches(blocks.keys, size)
    count = len(groups)
    leads = [
        (i, (i + step) % count)
        for i in range(count)
        for step in range(count // 2 + 1)
        if 2 * step < count or i < step  # of those opposite each other one leads
    ]
    alone, both = partial(among, **options), partial(between, **options)
    tasks = [(alone, groups[i]) if i == j else (both, groups[i], groups[j]) for i, j in leads]
    pairs = Blocks(stage, tasks, [blocks], blocks.name, among, between, options)
    places = {}
    for key, (i, j) in zip(pairs.keys, leads, strict=True):
        places[j, i] = getitem, key, 1
        places[i, j] = getitem, key, 0
    parts = Blocks("part", [places[i, j] for i in range(count) for j in range(count)], [pairs])
    merged = _merged(parts, count, partial(_merge_lists, merge))
    return Blocks("part", [(getitem, merged.keys[i // size], i % size) for i in range(blocks.count)], [merged])


def _merge_lists(merge: Callable[[list[Any]], Any], lists: list[list[Any]]) -> list[Any]:
    return [merge(list(results)) for results in zip(*lists, strict=True)]


def _merged(level: Blocks, rows: int, merge: Callable[[list[Any]], Any]) -> Blocks:
    """Merge the results of each row of a layer, the same number in each, by a tree."""
    while level.count > rows:
        width = level.count // rows
        stretches = [level.keys[i : i + width] for i in range(0, level.count, width)]
        tasks = [(merge, some) for stretch in stretches for some in _stretches(stretch, AT_ONCE)]
        level = Blocks("merge", tasks, [level], rows)
    return level


def _stretches(keys: list[Any], length: int) -> list[list[Any]]:
    return [keys[i : i + length] for i in range(0, len(keys), length)]


def array(blocks: Blocks, rows: tuple[float, ...], columns: int | None, dtype: np.dtype, meta: Any) -> da.Array:
    """Results of a layer as a Dask array of so many rows a block; without ``columns`` it has one dimension."""
    if columns is None:
        return da.Array(blocks.__dask_graph__(), blocks.name, (rows,), dtype=dtype, meta=type(meta)((0,), dtype=dtype))
    name = f"{blocks.name}-array"
    # Keys of an array say the place in every dimension.
    layer = {(name, i, 0): key for i, key in enumerate(blocks.keys)}
    graph = HighLevelGraph.from_collections(name, layer, [blocks])
    return da.Array(graph, name, (rows, (columns,)), dtype=dtype, meta=type(meta)((0, 0), dtype=dtype))
