"""Kendall's tau, convolution and piecewise polynomials on Dask arrays against the same calls on plain arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import cukde
from cukde.kendall import counts, dask as kendall_dask
from tests.conftest import Backend

RNG = np.random.default_rng(5)

# 60 samples of 7 variables with ties, NaN and infinities, and 3 others.
A, B = RNG.standard_normal((60, 7)), RNG.standard_normal((60, 3)).astype(np.float32)
A[:, 2] = np.round(A[:, 2])
A[3, 4] = np.nan
A[5, 5] = np.inf
A[:, 6] = 1.0
WHOLE = A[:, [0, 1, 2, 3, 5]]

X, W, BIAS = RNG.standard_normal((5, 6, 40)), RNG.standard_normal((6, 4)), RNG.standard_normal(6)
STATE = RNG.standard_normal((5, 6, 6))  # of a dilation of 2

COEFFICIENTS, KNOTS = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, -1.0]]), np.array([0.0, 1.0, 2.0])


def explodes(block: np.ndarray) -> np.ndarray:
    raise AssertionError("computed")


def computed(a: Any) -> Any:
    """Results of a lazy call, whose shapes, chunks and dtypes are those that it said."""
    arrays = a if isinstance(a, tuple) else (a,)
    assert all(type(one) is da.Array for one in arrays)
    out = dask.compute(*arrays, scheduler="synchronous")
    for one, got in zip(arrays, out, strict=True):
        assert (got.dtype, type(got)) == (one.dtype, type(one._meta))
        assert one._meta.dtype == one.dtype
        assert all(math.isnan(said) or said == size for said, size in zip(one.shape, got.shape, strict=True))
        for place in np.ndindex(one.numblocks):
            block = one.blocks[place].compute(scheduler="synchronous")
            said = [chunks[i] for chunks, i in zip(one.chunks, place, strict=True)]
            assert all(math.isnan(s) or s == size for s, size in zip(said, block.shape, strict=True))
    return out if isinstance(a, tuple) else out[0]


def same(got: Any, want: Any) -> None:
    """The same bits."""
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


class TestKendall:
    @staticmethod
    def blocks(a: np.ndarray, columns: Any = (0, 3, 1, 3)) -> da.Array:
        return da.from_array(a, chunks=((25, 0, 35), columns))

    @pytest.mark.parametrize("variant", ["a", "b", "c"])
    @pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
    def test_of_one_matrix(self, nan_policy: str, variant: str) -> None:
        options: dict[str, Any] = {"variant": variant, "nan_policy": nan_policy}
        same(computed(cukde.kendall_matrix(self.blocks(A), **options)), cukde.kendall_matrix(A, **options))

    @pytest.mark.parametrize("nan_policy", ["propagate", "omit"])
    def test_of_two(self, nan_policy: str) -> None:
        want = cukde.kendall_matrix(A, B, nan_policy=nan_policy)
        lazy = [
            (self.blocks(A), self.blocks(B, (2, 1))),
            (self.blocks(A), B),
            (A, self.blocks(B, (2, 1))),
            (self.blocks(A), da.from_array(B, chunks=(13, 3))),
        ]
        for pair in lazy:
            same(computed(cukde.kendall_matrix(*pair, nan_policy=nan_policy)), want)

    def test_p_values(self) -> None:
        got = cukde.kendall_matrix(self.blocks(A), pvalue=True, nan_policy="omit")
        assert isinstance(got, counts.SignificanceResult)
        tau, p = computed(got)
        want = cukde.kendall_matrix(A, pvalue=True, nan_policy="omit")
        same(tau, want.statistic)
        np.testing.assert_allclose(p, want.pvalue, rtol=1e-14)  # below the diagonal x and y have changed places
        same(computed(cukde.kendall_matrix(self.blocks(A), B, pvalue=True)), cukde.kendall_matrix(A, B, pvalue=True))

    def test_arrays_of_a_backend(self, backend: Backend) -> None:
        a = da.from_array(backend.asarray(WHOLE), chunks=(25, 2))
        got = computed(cukde.kendall_matrix(a, pvalue=True))
        for one, other in zip(got, cukde.kendall_matrix(WHOLE, pvalue=True), strict=True):
            np.testing.assert_allclose(backend.asnumpy(one), other, rtol=1e-12)
        same(backend.asnumpy(computed(cukde.kendall_matrix(a, B))), cukde.kendall_matrix(WHOLE, B))

    def test_data_frames(self) -> None:
        frame = dd.from_pandas(pd.DataFrame(A), npartitions=4)
        same(computed(cukde.kendall_matrix(frame, nan_policy="omit")), cukde.kendall_matrix(A, nan_policy="omit"))
        kept = frame[frame[0] > 0]
        want = cukde.kendall_matrix(A[A[:, 0] > 0][:, :3], A[A[:, 0] > 0])
        same(computed(cukde.kendall_matrix(kept[[0, 1, 2]], kept)), want)
        same(computed(cukde.kendall_matrix(frame, B)), cukde.kendall_matrix(A, B))

    def test_rows_that_turn_out_to_differ(self) -> None:
        a = da.from_array(WHOLE, chunks=20)
        with pytest.raises(ValueError, match=r"B must have \d+ rows like A"):
            cukde.kendall_matrix(a[a[:, 0] > 0], a).compute(scheduler="synchronous")

    def test_nothing_to_pair(self) -> None:
        for shape in ((0, 3), (1, 3), (5, 0)):
            a = np.ones(shape)
            same(computed(cukde.kendall_matrix(da.from_array(a, chunks=(2, 2)))), cukde.kendall_matrix(a))

    def test_nan_is_refused_by_name_and_place(self) -> None:
        same(
            computed(cukde.kendall_matrix(self.blocks(WHOLE, (3, 2)), nan_policy="raise")), cukde.kendall_matrix(WHOLE)
        )
        message = r"The input contains nan values: {}, in 1 of its columns \(column 4 at rows 3\), does"
        for pair, name in (((self.blocks(A),), "A"), ((WHOLE, self.blocks(A)), "B")):
            with pytest.raises(ValueError, match=message.format(name)):
                cukde.kendall_matrix(*pair, nan_policy="raise").compute(scheduler="synchronous")

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (ValueError, "A must have shape .rows, columns.", lambda a: cukde.kendall_matrix(a[0])),
            (ValueError, "B must hold real numbers", lambda a: cukde.kendall_matrix(a, a.astype(object))),
            (ValueError, "B must have 60 rows like A", lambda a: cukde.kendall_matrix(a, a[1:])),
            (ValueError, r"write A\.compute_chunk_sizes", lambda a: cukde.kendall_matrix(a[:, a[0] > 0])),
            (TypeError, "got Delayed", lambda a: cukde.kendall_matrix(a, dask.delayed(WHOLE))),
        ],
    )
    def test_forms_are_checked_at_once(self, error: type[Exception], message: str, call: Callable[..., Any]) -> None:
        with pytest.raises(error, match=message):
            call(da.from_array(WHOLE, chunks=20).map_blocks(explodes, meta=np.empty((0, 0))))

    @pytest.mark.parametrize("gpu", [False, True])
    @pytest.mark.parametrize(("n", "p"), [(10**3, 10**3), (10**4, 10**5), (10**8, 10), (math.nan, 40), (0, 5)])
    def test_block_rule(self, n: float, p: int, gpu: bool) -> None:
        columns = kendall_dask.columns_of_block(n, p, 1, gpu=gpu)
        assert columns >= 1
        if n == n:
            assert columns == 1 or columns * n <= 2**24
            assert -(-p // columns) <= 64 or 2 * columns * n > 2**24


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"padding": "same", "stride": 3, "activation": "silu"},
    {"padding": 2, "flip": True, "bias": BIAS, "activation": "tanh"},
    {"padding": "valid", "dilation": 5, "activation": "gelu", "bias": BIAS},
]


class TestConvolution:
    @staticmethod
    def blocks(a: np.ndarray, layout: str = "BCL") -> da.Array:
        """Of the batch, of channels, one of which is empty, and of positions."""
        chunks = {"B": (2, 0, 3), "C": (0, 4, 2), "L": 15}
        return da.from_array(a, chunks=tuple(chunks[letter] for letter in layout))

    @pytest.mark.parametrize("options", CONVOLUTIONS, ids=lambda options: " ".join(options) or "default")
    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    def test_equals_plain_arrays(self, layout: str, options: dict[str, Any]) -> None:
        x = X if layout == "BCL" else X.transpose(0, 2, 1).copy()
        want = cukde.depthwise_conv1d(x, W, layout=layout, **options)
        lazy = cukde.depthwise_conv1d(self.blocks(x, layout), W, layout=layout, **options)
        assert lazy.chunks[0] == (2, 0, 3)
        assert lazy.chunks[layout.index("C")] == (4, 2)
        same(computed(lazy), want)
        taps = da.from_array(W[:, None], chunks=(3, 1, 3))  # in PyTorch's shape
        options = options | ({"bias": da.from_array(BIAS, chunks=1)} if "bias" in options else {})
        same(computed(cukde.depthwise_conv1d(self.blocks(x, layout), taps, layout=layout, **options)), want)
        same(computed(cukde.depthwise_conv1d(x, taps, layout=layout, **options)), want)

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    @pytest.mark.parametrize("state", [None, "plain", "dask"])
    @pytest.mark.parametrize("length", [40, 2])
    def test_states(self, length: int, state: str | None, layout: str) -> None:
        x, s = (a if layout == "BCL" else a.transpose(0, 2, 1).copy() for a in (X[:, :, :length], STATE))
        options: dict[str, Any] = {"dilation": 2, "layout": layout, "return_state": True}
        given = {None: None, "plain": s, "dask": da.from_array(s, chunks=(1, 2, 3))}[state]
        got = cukde.depthwise_conv1d(self.blocks(x, layout), W, state=given, **options)
        same(computed(got), cukde.depthwise_conv1d(x, W, state=None if state is None else s, **options))

    @pytest.mark.parametrize("dtypes", [("float16", "float16"), ("float32", "float64"), ("int8", "float32")], ids=str)
    def test_dtypes(self, dtypes: tuple[str, str]) -> None:
        x, w = X.astype(dtypes[0]), W.astype(dtypes[1])
        got = computed(cukde.depthwise_conv1d(self.blocks(x), w, return_state=True))
        same(got, cukde.depthwise_conv1d(x, w, return_state=True))

    def test_taps_for_transforms(self) -> None:
        x, w = RNG.standard_normal((3, 4, 600)), RNG.standard_normal((4, 300))
        got = computed(cukde.depthwise_conv1d(da.from_array(x, chunks=(2, 3, 500)), w))
        np.testing.assert_allclose(got, cukde.depthwise_conv1d(x, w), rtol=0, atol=1e-12)

    def test_arrays_of_a_backend(self, backend: Backend) -> None:
        x = da.from_array(backend.asarray(X), chunks=(2, 4, 15))
        got = computed(cukde.depthwise_conv1d(x, W, bias=BIAS, return_state=True))
        for one, other in zip(got, cukde.depthwise_conv1d(X, W, bias=BIAS, return_state=True), strict=True):
            np.testing.assert_allclose(backend.asnumpy(one), other, rtol=1e-12, atol=1e-14)

    def test_batches_of_unknown_lengths(self) -> None:
        kept = X[:, 0, 0] > 0
        x, s = (da.from_array(a, chunks=(2, 3, -1))[da.from_array(kept, chunks=2)] for a in (X, STATE))
        same(computed(cukde.depthwise_conv1d(x, W)), cukde.depthwise_conv1d(X[kept], W))
        got = computed(cukde.depthwise_conv1d(x, W, dilation=2, state=s, return_state=True))
        same(got, cukde.depthwise_conv1d(X[kept], W, dilation=2, state=STATE[kept], return_state=True))
        with pytest.raises(ValueError, match=r"state must have the 3 blocks of x .*compute_chunk_sizes"):
            cukde.depthwise_conv1d(x, W, dilation=2, state=STATE)

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (ValueError, "x must have shape", lambda x: cukde.depthwise_conv1d(x[0], W)),
            (TypeError, "x must hold real numbers", lambda x: cukde.depthwise_conv1d(x.astype(complex), W)),
            (ValueError, "state must have shape", lambda x: cukde.depthwise_conv1d(x, W, state=STATE)),
            (ValueError, r"write x\.compute_chunk", lambda x: cukde.depthwise_conv1d(x[:, x[0, :, 0] > 0], W)),
            (ValueError, r"write w\.compute_chunk", lambda x: cukde.depthwise_conv1d(X, x[0][x[0, :, 0] > 0])),
        ],
    )
    def test_forms_are_checked_at_once(self, error: type[Exception], message: str, call: Callable[..., Any]) -> None:
        with pytest.raises(error, match=message):
            call(da.from_array(X, chunks=3).map_blocks(explodes, meta=np.empty((0, 0, 0))))


class TestPiecewise:
    @pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8"])
    def test_pwpa_equals_plain_arrays(self, dtype: str) -> None:
        x = (3 * X).astype(dtype)
        lazy = cukde.pwpa(da.from_array(x, chunks=(2, 4, 15)), COEFFICIENTS, KNOTS)
        assert lazy.chunks == da.from_array(x, chunks=(2, 4, 15)).chunks
        same(computed(lazy), cukde.pwpa(x, COEFFICIENTS, KNOTS))

    def test_tables_may_change_afterwards(self) -> None:
        table = COEFFICIENTS.copy()
        lazy = cukde.pwpa(da.from_array(X, chunks=20), table, KNOTS)
        table[:] = 0
        same(computed(lazy), cukde.pwpa(X, COEFFICIENTS, KNOTS))

    @pytest.mark.parametrize("nu", [0, 1])
    @pytest.mark.parametrize("further", [(), (2,), (2, 3)], ids=str)
    def test_polynomials(self, further: tuple[int, ...], nu: int) -> None:
        p = cukde.PiecewisePolynomial(np.random.default_rng(0).normal(size=(3, 4, *further)), np.arange(5.0))
        lazy = p(da.from_array(X, chunks=(2, 4, 15)), nu, False)
        assert lazy.shape == X.shape + further
        same(computed(lazy), p(X, nu, False))

    def test_arrays_of_a_backend(self, backend: Backend) -> None:
        x = da.from_array(backend.asarray(X), chunks=20)
        p = cukde.PiecewisePolynomial(backend.asarray(COEFFICIENTS.T), backend.asarray(KNOTS))
        got = computed(cukde.pwpa(x, backend.asarray(COEFFICIENTS), KNOTS)), computed(p(x))
        for one, other in zip(got, (cukde.pwpa(X, COEFFICIENTS, KNOTS), p(backend.asarray(X))), strict=True):
            np.testing.assert_allclose(backend.asnumpy(one), backend.asnumpy(backend.asarray(other)), atol=1e-13)

    def test_data_frames(self) -> None:
        frame = dd.from_pandas(pd.DataFrame(A), npartitions=3)
        same(computed(cukde.pwpa(frame, COEFFICIENTS, KNOTS)), cukde.pwpa(A, COEFFICIENTS, KNOTS))
        same(computed(cukde.pwpa(frame[0], COEFFICIENTS, KNOTS)), cukde.pwpa(A[:, 0], COEFFICIENTS, KNOTS))

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (TypeError, "x must hold real numbers", lambda x: cukde.pwpa(x.astype(complex), COEFFICIENTS, KNOTS)),
            (TypeError, r"knots\.compute\(\)", lambda x: cukde.pwpa(X, COEFFICIENTS, x[0, 0])),
            (TypeError, r"coefficients\.compute\(\)", lambda x: cukde.pwpa(X, x[0], KNOTS)),
            (TypeError, r"out must be None .*store", lambda x: cukde.pwpa(x, COEFFICIENTS, KNOTS, out=X)),
            (TypeError, "got Delayed", lambda x: cukde.pwpa(dask.delayed(X), COEFFICIENTS, KNOTS)),
        ],
    )
    def test_forms_are_checked_at_once(self, error: type[Exception], message: str, call: Callable[..., Any]) -> None:
        with pytest.raises(error, match=message):
            call(da.from_array(X, chunks=3).map_blocks(explodes, meta=np.empty((0, 0, 0))))


def test_an_error_beyond_the_domain_comes_with_its_block() -> None:
    lazy = cukde.fit_piecewise(np.exp, (0, 1), 4)(da.from_array(np.float32([0, 0.5, 7]), chunks=2))
    assert lazy[:2].compute().shape == (2,)
    with pytest.raises(ValueError, match=r"x must lie within the knots, from 0.0 to 1.0; got 7.0"):
        lazy.compute()


POLYNOMIAL = cukde.PiecewisePolynomial(COEFFICIENTS.T, KNOTS)
LAZY: dict[str, Callable[..., Any]] = {
    "kendall_matrix": lambda x, **o: cukde.kendall_matrix(x[:, 0], **o),
    "kendall_matrix of two": lambda x, **o: cukde.kendall_matrix(x[:, 0], x[:, 1], **o),
    "depthwise_conv1d": lambda x, **o: cukde.depthwise_conv1d(x, W, **o),
    "pwpa": lambda x, **o: cukde.pwpa(x, COEFFICIENTS, KNOTS, **o),
    "polynomial": lambda x, **o: POLYNOMIAL(x, **o),
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "kendall_matrix": [{}, {"variant": "a"}, {"nan_policy": "omit"}, {"nan_policy": "raise"}],
    "kendall_matrix of two": [{}, {"variant": "c"}],
    "depthwise_conv1d": [{}, {"stride": 2}, {"flip": True}, {"bias": BIAS}, {"bias": BIAS + 1}, {"activation": "silu"}],
    "pwpa": [{}, {"extrapolate": True}, {"origin": "local"}],
    "polynomial": [{}, {"nu": 1}, {"extrapolate": False}],
}


@pytest.mark.parametrize("name", LAZY)
def test_nothing_is_computed_when_the_graph_is_made(name: str) -> None:
    x = da.from_array(X, chunks=2).map_blocks(explodes, meta=np.empty((0, 0, 0)))
    lazy = LAZY[name](x)
    with pytest.raises(AssertionError, match="computed"):
        lazy.compute(scheduler="synchronous")


@pytest.mark.parametrize("name", LAZY)
def test_equal_calls_have_equal_keys(name: str) -> None:
    def names() -> list[str]:
        arrays = da.from_array(X, chunks=2), da.from_array(X, chunks=3), da.from_array(X + 1, chunks=3)
        return [LAZY[name](x, **options).name for x, options in itertools.product(arrays, OPTIONS[name])]

    found = names()
    assert found == names()
    assert len(set(found)) == 3 * len(OPTIONS[name])


def test_by_a_distributed_scheduler() -> None:
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        x = da.from_array(X, chunks=(2, 4, 15))
        lazy = [call(x) for call in LAZY.values()]
        for call, one in zip(LAZY.values(), dask.compute(*lazy), strict=True):
            same(one, call(X))


def test_graphs_survive_a_pickle() -> None:
    from distributed.protocol.pickle import dumps, loads

    for call in LAZY.values():
        lazy = loads(dumps(call(da.from_array(X, chunks=(2, 4, 15)))))
        same(lazy.compute(scheduler="synchronous"), call(X))
