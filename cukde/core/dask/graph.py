"""Layers of a Dask graph with one task for each block of rows, whose results may be of any type."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from operator import getitem
from typing import Any

import dask.array as da
import numpy as np
from dask._task_spec import Task as DaskTask
from dask.base import tokenize
from dask.highlevelgraph import HighLevelGraph

from cukde.core.dask.chunks import AT_ONCE, blocks_of_task
from cukde.core.quiet import called

Task = tuple[Any, ...]
"""A function and its arguments, some of them keys of other tasks."""

# Number of blocks above which unordered pairs are of groups of several blocks: 528 pairs.
_MANY_GROUPS = 32


class Blocks:
    """Results of one layer of tasks; ``token`` holds all that they depend on and determines their names."""

    def __init__(self, stage: str, tasks: Sequence[Task], dependencies: Sequence[Any], *token: Any) -> None:
        self.name = f"cukde-{stage}-{tokenize(*(layer.name for layer in dependencies), *token)}"
        self.count = len(tasks)
        layer = {(self.name, i): (_quietly(task[0]), *task[1:]) for i, task in enumerate(tasks)}
        self._graph = HighLevelGraph.from_collections(self.name, layer, dependencies)

    @property
    def keys(self) -> list[tuple[str, int]]:
        """Keys of the results."""
        return [(self.name, i) for i in range(self.count)]

    def __dask_graph__(self) -> HighLevelGraph:
        return self._graph

    def __dask_layers__(self) -> tuple[str]:
        return (self.name,)


def _quietly(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if function is getitem else partial(called, function)


class Unfused(DaskTask):
    """A task that Dask does not fuse with others.

    Equal calls have equal keys. Dask would fuse the first task of a call with its input, or not if the input is
    persisted, and so give one key different tasks: a cluster that still holds the one warns of deadlocks.
    """

    __slots__ = ()

    @property
    def block_fusion(self) -> bool:
        return True


def each(
    stage: str, function: Callable[..., Any], *blocks: Blocks, extra: Blocks | None = None, **options: Any
) -> Blocks:
    """Call a function on corresponding blocks of one or several layers, and on the single result of ``extra``."""
    also = () if extra is None else (extra.keys[0],)
    call = partial(function, **options)
    tasks = [(call, *keys, *also) for keys in zip(*(layer.keys for layer in blocks), strict=True)]
    dependencies = [*dict.fromkeys(blocks), *(() if extra is None else (extra,))]
    return Blocks(stage, tasks, dependencies, [layer.name for layer in blocks], function, options)


def gathered(stage: str, function: Callable[..., Any], blocks: Blocks, **options: Any) -> Blocks:
    """Call a function once, on the list of all results of a layer."""
    return Blocks(stage, [(partial(function, **options), blocks.keys)], [blocks], function, options)


def by_tree(blocks: Blocks, merge: Callable[[list[Any]], Any]) -> Blocks:
    """Merge all results of a layer by a tree, in the order of the blocks, with few of them in memory at a time."""
    return _merged(blocks, [blocks.count], merge) if blocks.count > 1 else gathered("merge", merge, blocks)


def crossed(
    stage: str,
    function: Callable[..., Any],
    merge: Callable[[list[Any]], Any],
    rows: Blocks,
    columns: Blocks,
    needed: np.ndarray | None = None,
    **options: Any,
) -> Blocks:
    """Call a function on each block of ``rows`` with several of ``columns`` at a time, and merge over the columns.

    A tree merges the results in the order of the blocks, with few of them in memory at a time. With ``needed``, (rows,
    columns) of bool, there are no tasks for other pairs; a row without any is called with no columns.
    """
    call = partial(function, **options)
    keys = columns.keys
    chosen = [keys] * rows.count if needed is None else [[keys[j] for j in np.flatnonzero(row)] for row in needed]
    count = blocks_of_task(sum(map(len, chosen)))
    groups = [_groups(some, count) or [[]] for some in chosen]
    tasks: list[Task] = [(call, row, group) for row, of_row in zip(rows.keys, groups, strict=True) for group in of_row]
    token = [rows.name, columns.name, function, options, needed]
    level = Blocks(stage, tasks, list(dict.fromkeys((rows, columns))), *token)
    return _merged(level, [len(of_row) for of_row in groups], merge)


def unordered(
    stage: str,
    among: Callable[..., Any],
    between: Callable[..., Any],
    merge: Callable[[list[Any]], Any],
    blocks: Blocks,
    needed: np.ndarray | None = None,
    **options: Any,
) -> Blocks:
    """Call functions on each unordered pair of blocks once, and merge the results of each block.

    ``among`` takes a group, a list of blocks, and returns a tuple with one list: for each block its result with all
    blocks of the group. ``between`` takes two groups and returns two lists: for each block of one group its result with
    all blocks of the other. Many blocks form groups of several, which makes tasks few and copies small. The lists are
    split where they are, and merged by the tree of :func:`crossed` in the order of the blocks.

    Groups stand in a circle. Each is the first of a pair with the groups that follow it up to the opposite one, which
    gives all groups the same number of such pairs, or one less.

    With ``needed``, (blocks, blocks) of bool, there are no tasks for pairs that neither block needs; each needs itself.
    Groups are then of one block unless many pairs are left, and meet as a whole.
    """
    size = min(AT_ONCE // 2, -(-blocks.count // _MANY_GROUPS))
    if needed is not None:
        needed = needed | needed.T | np.eye(blocks.count, dtype=bool)
        if np.triu(needed).sum() <= _MANY_GROUPS * (_MANY_GROUPS + 1) // 2:
            size = 1
        starts = range(0, blocks.count, size)
        needed = np.logical_or.reduceat(np.logical_or.reduceat(needed, starts, axis=0), starts, axis=1)
    groups = _groups(blocks.keys, size)
    count = len(groups)
    leading = [
        (i, (i + step) % count)
        for i in range(count)
        for step in range(count // 2 + 1)
        if 2 * step < count or i < step  # one of two opposite groups leads
    ]
    leading = [(i, j) for i, j in leading if needed is None or needed[i, j]]
    alone, both = partial(among, **options), partial(between, **options)
    tasks = [(alone, groups[i]) if i == j else (both, groups[i], groups[j]) for i, j in leading]
    pairs = Blocks(stage, tasks, [blocks], blocks.name, among, between, options, needed, size)
    places = {}
    for key, (i, j) in zip(pairs.keys, leading, strict=True):
        places[j, i] = getitem, key, 1
        places[i, j] = getitem, key, 0
    parts = Blocks("part", [places[place] for place in sorted(places)], [pairs])
    widths = Counter(i for i, _ in places)
    merged = _merged(parts, [widths[i] for i in range(count)], partial(_merge_lists, merge))
    return Blocks("part", [(getitem, merged.keys[i // size], i % size) for i in range(blocks.count)], [merged])


def _merge_lists(merge: Callable[[list[Any]], Any], lists: list[list[Any]]) -> list[Any]:
    return [merge(list(results)) for results in zip(*lists, strict=True)]


def _merged(level: Blocks, widths: list[int], merge: Callable[[list[Any]], Any]) -> Blocks:
    """Merge the results of each row of a layer by a tree; ``widths`` are their numbers in each row."""
    while max(widths, default=1) > 1:
        keys = iter(level.keys)
        groups = [_groups(list(itertools.islice(keys, width)), AT_ONCE) for width in widths]
        tasks: list[Task] = [(merge, group) for row in groups for group in row]
        level = Blocks("merge", tasks, [level], widths)
        widths = list(map(len, groups))
    return level


def _groups(keys: list[Any], length: int) -> list[list[Any]]:
    return [keys[i : i + length] for i in range(0, len(keys), length)]


def array(blocks: Blocks, rows: tuple[float, ...], columns: int | None, dtype: np.dtype, meta: Any) -> da.Array:
    """Return the results of a layer as a Dask array with so many rows in each block, one-dimensional if no columns."""
    if columns is None:
        return da.Array(blocks.__dask_graph__(), blocks.name, (rows,), dtype=dtype, meta=type(meta)((0,), dtype=dtype))
    name = f"{blocks.name}-array"
    # Keys of an array have an index for every dimension.
    layer = {(name, i, 0): key for i, key in enumerate(blocks.keys)}
    graph = HighLevelGraph.from_collections(name, layer, [blocks])
    return da.Array(graph, name, (rows, (columns,)), dtype=dtype, meta=type(meta)((0, 0), dtype=dtype))


def single(blocks: Blocks, shape: tuple[int, ...], meta: Any) -> da.Array:
    """Return the only result of a layer as a Dask array of one chunk, with the dtype of ``meta``."""
    name = f"{blocks.name}-array"
    graph = HighLevelGraph.from_collections(name, {(name, *[0] * len(shape)): blocks.keys[0]}, [blocks])
    return da.Array(graph, name, tuple((size,) for size in shape), dtype=meta.dtype, meta=meta)
