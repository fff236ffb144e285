"""Densities on domains of Dask arrays: blocks and their images against the same calls on plain arrays."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask
from tests.conftest import Backend
from tests.density.test_dask import CHUNKS, N, Y as QUERIES, blocks, computed, same
from tests.density.test_dask_stream import host, lazily, of_plain, on_gpu  # noqa: F401  # a fixture

RNG = np.random.default_rng(5)
X = np.stack([RNG.exponential(size=N), RNG.normal(0, 3, N), RNG.beta(2, 5, N)], axis=1)
Y = np.abs(QUERIES)  # some of the third column above its bound
W = np.where(np.arange(N) < 50, 0.0, RNG.uniform(0.1, 3, N))
DOMAIN: dict[str, Any] = {"bounds": [(0, None), None, (0, 1)], "periods": [None, 6.0, None]}
H = [0.2, 0.5, 0.1]

CALLS: dict[str, Any] = {
    "kde": lambda x, y, **o: cukde.kde(x, y, H, **o),
    "wide": lambda x, y, **o: cukde.kde(x, y, 2.0, **o),  # the product of columns
    "log": lambda x, y, **o: cukde.kde(x, y, H, log=True, **o),
    "score": lambda x, y, **o: cukde.score(x, y, H, **o),
    "density_and_score": lambda x, y, **o: cukde.density_and_score(x, y, H, **o),
    "debias": lambda x, y, **o: cukde.debias(x, H, score_bandwidth=[0.1, 0.4, 0.1], **o),
    "sd_kde": lambda x, y, **o: cukde.sd_kde(x, y, H, **o),
    "sd_kde of three steps": lambda x, y, **o: cukde.sd_kde(x, y, H, score_bandwidth=[0.1, 0.4, 0.1], steps=3, **o),
    "sd_kde of others": lambda x, y, **o: cukde.sd_kde(x, y, H, own_point=False, **o),
    "laplace_kde": lambda x, y, **o: cukde.laplace_kde(x, y, H, **o),
}


@pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
@pytest.mark.parametrize("call", CALLS)
def test_equals_plain_arrays(call: str, weights: Any) -> None:
    of_data, of_queries = CHUNKS["uneven and empty"]
    got = computed(CALLS[call](blocks(X, of_data), blocks(Y, of_queries), weights=weights, **DOMAIN))
    want = CALLS[call](X, Y, weights=weights, **DOMAIN)
    inside = None if call == "debias" else Y[:, 2] <= 1
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
        if inside is not None:
            assert not inside.all()
            np.testing.assert_array_equal(one[~inside], other[~inside])
            one, other = one[inside], other[inside]
        np.testing.assert_allclose(one, other, rtol=3e-12, atol=3e-12)


def test_queries_may_be_the_data() -> None:
    x = blocks(X, (100, 130))
    same(computed(cukde.kde(x, x, H, **DOMAIN)), cukde.kde(X, X, H, **DOMAIN))
    same(computed(cukde.score(x, x, H, **DOMAIN)), cukde.score(X, X, H, **DOMAIN))


def test_far_blocks_have_the_images_that_matter() -> None:
    """Blocks that lie apart, of queries too: the least sum of each pair alone says which images are taken."""
    x, y = np.sort(X[:, 0]), np.linspace(0, 40, 60)
    got = computed(cukde.kde(blocks(x, (100, 130)), blocks(y, (20, 40)), 0.05, log=True, bounds=[(0, None)]))
    np.testing.assert_allclose(got, cukde.kde(x, y, 0.05, log=True, bounds=[(0, None)]), rtol=1e-13, atol=1e-12)


def test_data_on_the_host_stream_through_the_gpu(on_gpu: Any) -> None:  # noqa: F811
    x = X.astype(np.float32)
    x[0, 2], bounds = np.float32(0.1), [(0, None), None, (0.1, 1)]  # a little more than 0.1
    x[:, 2] = np.maximum(x[:, 2], x[0, 2])
    options = {"bounds": bounds, "periods": DOMAIN["periods"]}
    for call in ("kde", "sd_kde"):
        got = host(computed(CALLS[call](blocks(x, (100, 130)), lazily(on_gpu, Y, (30, 60)), **options)))
        np.testing.assert_allclose(got, of_plain(CALLS[call], x, Y, **options), rtol=1e-9)


def test_blocks_on_the_backend(backend: Backend) -> None:
    x, y = backend.asarray(X[:60]), backend.asarray(Y[:20])
    lazy = [da.from_array(a, chunks=(rows, 3)) for a, rows in ((x, 40), (y, 13))]
    got = backend.asnumpy(cukde.kde(*lazy, H, **DOMAIN).compute(scheduler="synchronous"))
    np.testing.assert_allclose(got, cukde.kde(X[:60], Y[:20], H, **DOMAIN), rtol=1e-11)


def test_data_outside_are_refused_with_their_block() -> None:
    x = X.copy()
    x[150, 0] = -1
    lazy = cukde.kde(blocks(x, (100, 130)), Y, H, **DOMAIN)
    with pytest.raises(ValueError, match=r"1 of 130 rows have column 0 outside \[0, inf\].* \(block 1 of X\)"):
        computed(lazy)
    x[150, 0] = np.inf
    with pytest.raises(ValueError, match="X must be finite; block 1 holds NaN or infinity in 1 of its rows"):
        computed(cukde.kde(blocks(x, (100, 130)), Y, H, **DOMAIN))
    x[150, 0] = -1
    unchecked = {"check_finite": False} | DOMAIN
    for f in (CALLS["kde"], CALLS["debias"]):
        got, want = computed(f(blocks(x, (100, 130)), Y[:5], **unchecked)), f(x, Y[:5], **unchecked)
        np.testing.assert_allclose(got, want, rtol=3e-12, atol=3e-12)


def test_what_does_not_fit_is_refused_at_once() -> None:
    x = blocks(X, (100, 130))
    with pytest.raises(ValueError, match="bounds must have 3 entries"):
        cukde.kde(x, Y, H, bounds=[(0, 1)])
    with pytest.raises(ValueError, match="h must not correlate a bounded column"):
        cukde.kde(x, Y, np.eye(3) + 0.1, bounds=DOMAIN["bounds"])
    with pytest.raises(ValueError, match="score_bandwidth must not correlate"):
        cukde.debias(x, H, score_bandwidth=np.eye(3) + 0.1, bounds=DOMAIN["bounds"])
    with pytest.raises(ValueError, match="boxes must be None beside bounds or periods"):
        cukde.dask.kde(x, Y, H, boxes=cukde.dask.block_boxes(x), **DOMAIN)
