"""Densities of Dask arrays at their own rows without a row's own kernel, against the same calls on plain arrays."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask
from cukde.density.dask import blocks as dask_blocks, memory
from tests.conftest import Backend
from tests.density.test_dask import COVARIANCE, FACTORS, N, X, blocks, computed

W = np.where(np.arange(N) < 50, 0.0, np.random.default_rng(0).exponential(size=N))
HEAVY = np.where(np.arange(N) == 120, 1e12, W)
CHUNKS: dict[str, tuple[int, ...]] = {
    "one block": (N,),
    "uneven and empty": (0, 100, 1, 0, 99, 30),
    "many": (23,) * 10,
}
CALLS: dict[str, Any] = {
    "kde": lambda x, **o: cukde.kde(x, x, 0.3, log=True, **o),
    "kde of local factors": lambda x, **o: cukde.kde(x, x, COVARIANCE, local_factors=FACTORS, **o),
    "score": lambda x, **o: cukde.score(x, x, 0.5, **o),
    "density_and_score": lambda x, **o: cukde.density_and_score(x, x, 0.5, **o),
    "sd_kde": lambda x, **o: cukde.sd_kde(x, x, 0.4, score_bandwidth=COVARIANCE, log=True, **o),
    "laplace_kde": lambda x, **o: cukde.laplace_kde(x, x, 0.5, **o),
    "score of local factors": lambda x, **o: cukde.score(x, x, 0.5, local_factors=FACTORS, **o),
    "sd_kde of local factors": lambda x, **o: cukde.sd_kde(x, x, 0.4, local_factors=FACTORS, log=True, **o),
    "laplace_kde of local factors": lambda x, **o: cukde.laplace_kde(x, x, 0.5, local_factors=FACTORS, **o),
    "periods": lambda x, **o: cukde.kde(x, x, 0.5, bounds=[None, None, (-5, 5)], periods=[None, 7.0, None], **o),
}


def close(got: Any, want: Any) -> None:
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12 * abs(other).max())


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("call", CALLS)
def test_equals_plain_arrays(call: str, chunks: str) -> None:
    for weights in (None, W, HEAVY):
        want = CALLS[call](X, weights=weights, leave_one_out=True)
        close(computed(CALLS[call](blocks(X, CHUNKS[chunks]), weights=weights, leave_one_out=True)), want)


def test_blocks_on_the_backend(backend: Backend) -> None:
    x = da.from_array(backend.asarray(X.astype("f4")), chunks=(90, 3))
    got = backend.asnumpy(cukde.kde(x, x, 0.5, log=True, leave_one_out=True).compute(scheduler="synchronous"))
    np.testing.assert_allclose(got, cukde.kde(X, X, 0.5, log=True, leave_one_out=True), rtol=1e-4, atol=1e-4)


def test_parts_of_blocks_leave_out_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = dask_blocks.pair

    def pair(y: Any, x: Any, **options: Any) -> Any:
        if max(len(y.points), len(x.points)) > 30:
            raise MemoryError
        return whole(y, x, **options)

    monkeypatch.setattr(dask_blocks, "pair", pair)
    monkeypatch.setattr(memory, "_FEWEST_ROWS", 10)
    x = blocks(X, (101, 129))
    with pytest.warns(cukde.MemoryWarning):
        got = computed(cukde.kde(x, x, 0.3, weights=W, leave_one_out=True))
    close(got, cukde.kde(X, X, 0.3, weights=W, leave_one_out=True))


def test_boxes_leave_out_no_block_beside_an_own_kernel() -> None:
    far = np.sort(X[:, 0]) * 10
    x = da.from_array(far, chunks=23)
    got = cukde.dask.kde(x, x, 0.01, log=True, boxes=cukde.dask.block_boxes(x), leave_one_out=True)
    close(computed(got), cukde.kde(far, far, 0.01, log=True, leave_one_out=True))


def test_what_does_not_fit_is_refused() -> None:
    x = blocks(X, (100, 130))
    for call, message in (
        (lambda: cukde.kde(x, X, 0.5, leave_one_out=True), "leave_one_out=True needs the data themselves as queries"),
        (lambda: cukde.score(x[:1], x[:1], 0.5, leave_one_out=True), "needs two rows or more that have a weight"),
        (lambda: computed(cukde.kde(x, x, 1.0, weights=np.eye(1, N)[0], leave_one_out=True)), "needs two rows or more"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="unexpected keyword argument 'leave_one_out'"):
        cukde.dask.marginal(x, [0], x[:, 0], 0.5, leave_one_out=True)
