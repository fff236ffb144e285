"""The merge sort on the device, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import Backend, why_no_gpu

TILE = 4096  # keys of the largest tile
MANY = 3_000_000  # on a GPU


def keys_of(n: int, dtype: str, distinct: int) -> np.ndarray:
    """Random keys of so many values, the largest one, which also fills tiles up, among them."""
    keys = np.random.default_rng(n).integers(distinct, size=n, dtype=dtype)
    keys[keys == distinct - 1] = np.iinfo(dtype).max
    return keys


@pytest.mark.parametrize("distinct", [1, 40, 2**32 - 1])
@pytest.mark.parametrize("n", [1, 127, 128, 129, TILE, 5000, MANY])
def test_keys_and_where_they_came_from(device: Backend, n: int, distinct: int) -> None:
    """Equal keys keep their order."""
    from tests.private import merge_sort

    keys = keys_of(device.size(n, min(n, 5 * TILE - 3)), "uint32", distinct)
    found, order = merge_sort.in_order(device.asarray(keys.copy()))
    assert (found.dtype, order.dtype) == (np.uint32, np.int64)
    np.testing.assert_array_equal(device.asnumpy(order), np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(device.asnumpy(found), np.sort(keys))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
@pytest.mark.parametrize("n", [1, 1000, 2 * TILE - 3])
def test_rows_are_sorted_apart(device: Backend, n: int, dtype: str) -> None:
    from tests.private import merge_sort

    keys = keys_of(2 * n, dtype, 40).reshape(2, n)
    found, order = merge_sort.argsort(device.asarray(keys.copy()))
    np.testing.assert_array_equal(device.asnumpy(order), np.argsort(keys, axis=1, kind="stable"))
    np.testing.assert_array_equal(device.asnumpy(found), np.sort(keys, axis=1))


@pytest.mark.parametrize(("n", "launches"), [(1, 1), (TILE, 1), (10_000, 3), (10**6, 9), (MANY, 11)])
def test_launches_follow_from_the_number_of_keys(emulated_device: None, n: int, launches: int) -> None:
    from tests.private import merge_sort

    _, merges = merge_sort._launches(1, n, merge_sort.UINT32, True, False)
    assert 1 + len(merges) == launches


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
def test_a_graph_captures_a_sort() -> None:
    """A capture fails where anything waits; the graph sorts what the array holds when it runs."""
    import cupy as cp

    from tests.private import merge_sort

    keys = cp.zeros(20_000, np.uint32)
    stream = cp.cuda.Stream(non_blocking=True)
    pool = cp.cuda.MemoryPool()  # of the graph alone: a later call must not be given its memory
    with cp.cuda.using_allocator(pool.malloc), stream:
        merge_sort.in_order(keys.copy())  # load before
        stream.begin_capture()
        _, order = merge_sort.in_order(keys.copy())
        graph = stream.end_capture()
        given = keys_of(len(keys), "uint32", 1000)
        keys.set(given)
        graph.launch(stream)
        np.testing.assert_array_equal(order.get(), np.argsort(given, kind="stable"))
