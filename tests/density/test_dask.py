"""The density family on Dask arrays against the same calls on plain arrays, and what graphs and blocks promise."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from dask.diagnostics import ProgressBar

import cukde
import cukde.dask
from cukde.core.cpu import arrays as core_arrays, threads
from cukde.core.cpu.workers import WorkerPool
from cukde.core.dask import chunks as dask_chunks, graph as dask_graph
from cukde.density import sums as density_sums
from cukde.density.dask import blocks as dask_blocks
from cukde.density.options import Options
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.whitening import Whitening
from tests import reference
from tests.conftest import Backend
from tests.tolerances import DENSITY, check

N, M, D = 230, 90, 3
RNG = np.random.default_rng(11)
X, Y, V = (RNG.standard_normal(shape) for shape in ((N, D), (M, D), (N, 2)))
W = np.where(np.arange(N) < 50, 0.0, 10.0 ** RNG.uniform(-3, 3, N))
FACTORS = RNG.uniform(0.5, 2, N)
FACTORED = {"local_factors": FACTORS}
COVARIANCE = np.array([[0.3, 0.1, 0.0], [0.1, 0.4, -0.05], [0.0, -0.05, 0.25]])

Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "kde": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, **o),
    "kde of log": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, log=True, **o),
    "kde of local factors": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, local_factors=FACTORS, **o),
    "score": lambda X, Y, h=0.5, **o: cukde.score(X, Y, h, **o),
    "density_and_score": lambda X, Y, h=0.5, **o: cukde.density_and_score(X, Y, h, **o),
    "debias": lambda X, Y, h=0.5, **o: cukde.debias(X, h, **o),
    "debias of another score": lambda X, Y, h=0.5, **o: cukde.debias(X, h, score_bandwidth=[0.4, 0.7, 0.5], **o),
    "sd_kde": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, **o),
    "sd_kde of another score": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, score_bandwidth=0.7, **o),
    "laplace_kde": lambda X, Y, h=0.5, **o: cukde.laplace_kde(X, Y, h, **o),
    "density_and_score of local factors": lambda X, Y, h=0.5, **o: cukde.density_and_score(X, Y, h, **FACTORED, **o),
    "sd_kde of local factors": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, score_bandwidth=0.7, **FACTORED, **o),
    "laplace_kde of local factors": lambda X, Y, h=0.5, **o: cukde.laplace_kde(X, Y, h, **FACTORED, **o),
    "kernel_sum": lambda X, Y, h=0.5, **o: cukde.kernel_sum(X, V, Y, h, **o),
    "kernel_sum of one column": lambda X, Y, h=0.5, **o: cukde.kernel_sum(X, V[:, 0], Y, h, **o),
}
CHUNKS = {
    "one block": ((N,), (M,)),
    "uneven and empty": ((0, 100, 1, 0, 99, 30), (50, 0, 40)),
    "many": ((23,) * 10, (30,) * 3),
}


def blocks(a: Any, rows: Any) -> da.Array:
    """A Dask array in blocks of ``rows``, whose columns are in blocks too where there are several."""
    return da.from_array(a, chunks=(rows, *((1, a.shape[1] - 1) for _ in a.shape[1:] if a.shape[1] > 1)))


def computed(a: Any, **options: Any) -> Any:
    """Results of a lazy call, whose shapes and dtypes are those that it said."""
    options = {"scheduler": "synchronous"} | options
    arrays = a if isinstance(a, tuple) else (a,)
    assert all(isinstance(one, da.Array) for one in arrays)
    out = dask.compute(*arrays, **options)
    for one, got in zip(arrays, out, strict=True):
        assert got.dtype == one.dtype
        assert len(got.shape) == len(one.shape)
        assert all(np.isnan(said) or said == size for said, size in zip(one.shape, got.shape, strict=True))
    return out if isinstance(a, tuple) else out[0]


def same(got: Any, want: Any, tolerance: float = 1e-12) -> None:
    """Equal to ``tolerance`` of the largest entry, and of the entry itself where that has terms of one sign only."""
    for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        check(np.abs(one - other), tolerance * np.abs(other).max(initial=1e-300), "result")
        if (other >= 0).all():
            check(np.abs(one - other), tolerance * np.abs(other), "result")


class Variant(NamedTuple):
    """How a call of plain arrays becomes one of blocks: their rows (None: a list stays), and what arguments are."""

    data: Any = CHUNKS["uneven and empty"][0]
    queries: Any = CHUNKS["uneven and empty"][1]
    h: Any = 0.5
    weights: Any = None
    dtype: str = "float64"
    scale: float = 1.0
    tolerance: float = 1e-12


OF_WEIGHTS = (0, 40, 90, 70, 30)  # a block of rows without weight among them
VARIANTS = {
    **{name: Variant(*chunks) for name, chunks in CHUNKS.items()},
    "rows of their own": Variant((1,) * 20 + (N - 20,), (1,) * 30 + (M - 30,)),
    "data that are no blocks": Variant(data=None),
    "queries that are no blocks": Variant(queries=None),
    "single precision": Variant(dtype="float32", tolerance=2e-5),
    "deviations": Variant(h=[0.5, 0.3, 0.8], tolerance=3e-12),
    "covariance": Variant(h=COVARIANCE, tolerance=3e-12),
    "tiny": Variant(h=1e-13, scale=1e-13, tolerance=3e-12),
    "weights": Variant(OF_WEIGHTS, weights=W),
    "weights in blocks": Variant(OF_WEIGHTS, weights=da.from_array(W, chunks=77)),
    "weights of very different blocks": Variant(
        (100, 100, 30), weights=W * np.repeat([1e-290, 1.0, 1e290], [100, 100, 30])
    ),
}


def exist(call: str, of: Variant) -> bool:
    """Whether a call takes such arguments, and has blocks then."""
    return not (
        (of.weights is not None and "kernel_sum" in call)
        or (of.data is None and "debias" in call)
        or (of.scale < 1 and "another score" in call)
    )


@pytest.mark.parametrize(
    ("call", "variant"), [pair for pair in itertools.product(CALLS, VARIANTS) if exist(pair[0], VARIANTS[pair[1]])]
)
def test_equals_plain_arrays(call: str, variant: str) -> None:
    of = VARIANTS[variant]
    x, y = ((of.scale * a).astype(of.dtype) for a in (X, Y))
    options = {} if of.weights is None else {"weights": np.asarray(of.weights)}
    want = CALLS[call](x, y, of.h, **options)
    data, queries = (a.tolist() if rows is None else blocks(a, rows) for a, rows in ((x, of.data), (y, of.queries)))
    options = {} if of.weights is None else {"weights": of.weights}
    same(computed(CALLS[call](data, queries, of.h, **options)), want, of.tolerance)


@pytest.mark.parametrize("weighted", [False, True])
def test_matches_reference(backend: Backend, weighted: bool) -> None:
    w = W if weighted else None
    x = da.from_array(backend.asarray(X), chunks=((100, 0, 130), D))
    y = da.from_array(backend.asarray(Y), chunks=(50, D))
    weights = backend.asarray(w)
    got = [
        backend.asnumpy(computed(a))
        for a in (
            cukde.kde(x, y, 0.5, weights=weights),
            cukde.score(x, y, 0.5, weights=weights),
            cukde.debias(x, 0.5, weights=weights),
            cukde.sd_kde(x, y, COVARIANCE, weights=weights),
            cukde.kernel_sum(x, backend.asarray(V), y, 0.5),
        )
    ]
    want = [
        reference.kde(X, Y, 0.5, w),
        reference.score(X, Y, 0.5, w),
        reference.debias(X, 0.5, None, w),
        reference.sd_kde(X, Y, COVARIANCE, weights=w),
        reference.kernel_sum(X, V, Y, 0.5)[0],
    ]
    for one, other in zip(got, want, strict=True):
        same(one, other, 3e-11)


@pytest.mark.parametrize("d", [1, 4])
def test_float32_of_sorted_data_far_from_zero(d: int) -> None:
    """Blocks lie apart: each is centred on its own, and spreads are those of the pair."""
    x = np.sort(RNG.standard_normal((3000, d)) + 1e3, axis=0).astype(np.float32)
    y = np.sort(RNG.standard_normal((500, d)) + 1e3, axis=0).astype(np.float32)
    h = 0.4
    got = computed(cukde.kde(da.from_array(x, chunks=(700, -1)), da.from_array(y, chunks=(120, -1)), h, log=True))
    assert got.dtype == np.float32
    want = reference.log_kde(x, y, h)
    assert (want > -40).all()
    check(np.abs(got - want), DENSITY["cpu", "float32"].value + 2.0**-24 * np.abs(want), "log density")


def test_one_dimension_by_the_fast_transform() -> None:
    x, y = (np.random.default_rng(seed).standard_normal(size) for seed, size in ((1, 9000), (2, 5000)))
    lazy = [da.from_array(a, chunks=4000) for a in (x, y)]
    for call in (cukde.kde, cukde.score, lambda X, Y, h: cukde.debias(X, h)):
        got, want = computed(call(*lazy, 0.1)), call(x, y, 0.1)
        assert got.shape == want.shape
        check(np.abs(got - want), 3e-12 * np.maximum(1, np.abs(want).max()), "one dimension")


AT_THEMSELVES: dict[str, Call] = {
    "debias": lambda x, h=0.5, **o: cukde.debias(x, h, **o),
    "sd_kde": lambda x, h=0.5, **o: cukde.sd_kde(x, Y, h, **o),
    "score": lambda x, h=0.5, **o: cukde.score(x, x, h, **o),
    "density_and_score": lambda x, h=0.5, **o: cukde.density_and_score(x, x, h, **o),
}


ROWS = [
    (230,),
    (100, 130),
    (0, 230, 0),
    (60, 1, 99, 70),
    (50, 40, 0, 80, 60),
    (29, 29, 29, 29, 29, 29, 28, 28),
]


class TestUnorderedPairs:
    """Moments by self-interaction (Y = X): each pair of blocks is taken once for both."""

    @pytest.fixture(params=[32, 3], ids=["alone", "in lists"])
    def groups(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Blocks in lists of two and three where there are four and more of them, or not."""
        monkeypatch.setattr(dask_graph, "_MANY_GROUPS", request.param)

    @pytest.mark.usefixtures("groups")
    @pytest.mark.parametrize("rows", ROWS, ids=len)
    @pytest.mark.parametrize("call", AT_THEMSELVES)
    def test_equals_plain_arrays(self, call: str, rows: tuple[int, ...]) -> None:
        x = da.from_array(X, chunks=(rows, -1))
        same(computed(AT_THEMSELVES[call](x)), AT_THEMSELVES[call](X))

    @pytest.mark.usefixtures("groups")
    @pytest.mark.parametrize("call", AT_THEMSELVES)
    @pytest.mark.parametrize("h", [0.5, COVARIANCE], ids=["scalar", "covariance"])
    def test_blocks_of_unknown_length(self, call: str, h: Any) -> None:
        """Some of which are empty; and with a covariance."""
        order = np.argsort(X[:, 0])
        x = da.from_array(X[order], chunks=(40, -1))
        x = x[x[:, 0] > 0]
        assert np.isnan(x.shape[0])
        same(computed(AT_THEMSELVES[call](x, h)), AT_THEMSELVES[call](X[order][X[order][:, 0] > 0], h), 3e-12)

    @pytest.mark.parametrize("scale", [1e-13, 1.0, 1e13])
    def test_blocks_far_apart(self, scale: float) -> None:
        """Of which some are beyond the spread of a product; exponentials underflow in some pairs."""
        x = (X + 300.0 * (np.arange(N)[:, None] // 60)) * scale
        got = computed(cukde.density_and_score(*[da.from_array(x, chunks=(40, -1))] * 2, 0.5 * scale))
        same(got, cukde.density_and_score(x, x, 0.5 * scale), 3e-12)

    @pytest.mark.parametrize("checked", [True, False])
    @pytest.mark.parametrize("scale", [1e-37, 1e-11, 1.0, 1e11, 1e37])
    def test_single_precision_near_the_ends_of_its_range(self, scale: float, checked: bool) -> None:
        x, h = (X * scale).astype(np.float32), 0.5 * scale
        lazy = cukde.debias(da.from_array(x, chunks=(40, -1)), h, check_finite=checked)
        got = computed(lazy).astype(np.float64) / scale
        want = cukde.debias(x.astype(np.float64), h) / scale
        check(np.abs(got - want), 1e-5, "debiased")

    @pytest.mark.parametrize("checked", [True, False])
    def test_single_precision_of_blocks_as_far_apart_as_may_be(self, checked: bool) -> None:
        """1e17 bandwidths, and moments of 1e29 a row; or twice the largest number, unchecked."""
        far = 1e29 if checked else 3e38
        x = np.where(np.arange(N)[:, None] < 120, 1e12 * X, far).astype(np.float32)
        got = computed(cukde.debias(da.from_array(x, chunks=(60, -1)), 0.9e12, check_finite=checked))
        want = cukde.debias(X[:120].astype(np.float32), 0.9)
        check(np.abs(got[:120] / 1e12 - want), 1e-5, "debiased")
        np.testing.assert_array_equal(got[120:], x[120:])

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_on_each_backend(self, backend: Backend, dtype: str) -> None:
        x, h = X.astype(dtype), 0.5
        lazy = da.from_array(backend.asarray(x), chunks=((100, 0, 77, 53), D))
        log_p, s = (backend.asnumpy(a) for a in computed(cukde.density_and_score(lazy, lazy, h)))
        want_log_p, want = reference.density_and_score(x, x, h)
        tolerance = DENSITY[backend.device, dtype].value
        check(np.abs(log_p - want_log_p), tolerance + np.finfo(dtype).eps * np.abs(want_log_p), "log density")
        if backend.device == "gpu" and dtype == "float32":  # where each exponential is taken once, points have 11 bits
            tolerance = 1.5e-4 * np.linalg.norm(x - x.mean(axis=0), axis=1).max() / h
        check(h * np.linalg.norm(s - want, axis=1), tolerance * reference.nearness(x, x, h).reach, "score")

    def test_by_threads(self) -> None:
        x = da.from_array(X, chunks=(25, -1))
        lazy = cukde.debias(x, 0.5)
        got = [computed(lazy, scheduler="threads", num_workers=4) for _ in range(3)]
        same(got[0], cukde.debias(X, 0.5))
        for again in got[1:]:
            np.testing.assert_array_equal(again, got[0])

    @pytest.mark.usefixtures("groups")
    @pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8])
    def test_each_pair_once(self, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        met: Counter[tuple[int, ...]] = Counter()

        def watched(name: str) -> None:
            function = getattr(dask_blocks, name)

            def call(x: Any, y: Any, **options: Any) -> Any:
                met[min(x.number, y.number), max(x.number, y.number)] += 1
                return function(x, y, **options)

            monkeypatch.setattr(dask_blocks, name, call)

        watched("pair")
        watched("mutual")
        computed(cukde.debias(da.from_array(X[: 10 * count], chunks=(10, -1)), 0.5))
        assert met == Counter(itertools.combinations_with_replacement(range(count), 2))

    @pytest.mark.parametrize(
        ("count", "tasks"),
        [
            (1, {"sums": 1, "part": 1 + 1}),
            (2, {"sums": 3, "part": 4 + 2, "merge": 2}),
            (16, {"sums": 136, "part": 256 + 16, "merge": 16 * 3}),
            (64, {"sums": 528, "part": 32 * 32 + 64, "merge": 32 * 5}),
        ],
    )
    def test_graphs_are_small(self, count: int, tasks: dict[str, int]) -> None:
        x = da.zeros((count, 3), chunks=(1, -1))
        graph = cukde.score(x, x, 0.5).__dask_graph__()
        stages = Counter(key[0].rpartition("-")[0] for key in graph if key[0].startswith("cukde"))
        assert {stage: stages[f"cukde-{stage}"] for stage in tasks} == tasks
        assert sum(stages.values()) == sum(tasks.values()) + 3 * count

    @pytest.mark.parametrize(
        "call",
        [
            lambda x: cukde.debias(x, 0.5, weights=W),
            lambda x: cukde.debias(x, 0.5, deterministic=True),
            lambda x: cukde.debias(x[:, 0], 0.5),
            lambda x: cukde.kde(x, x, 0.5),
            lambda x: cukde.score(x, Y, 0.5),
        ],
        ids=["weights", "deterministic", "one dimension", "sums", "queries"],
    )
    def test_ordered_pairs(self, call: Call) -> None:
        assert not any("cukde-part" in str(key) for key in call(da.from_array(X, chunks=(60, -1))).__dask_graph__())

    def test_tasks_wait_for_what_they_launched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a task returns is there: nothing is given to the device after its last wait."""
        events: list[str] = []

        def noted(module: Any, name: str, event: str) -> None:
            function = getattr(module, name)

            def call(*args: Any, **options: Any) -> Any:
                events.append(event)
                return function(*args, **options)

            monkeypatch.setattr(module, name, call)

        for module, name in (
            (pairs_passes, "partial_sums"),
            (pairs_passes, "mutual_sums"),
            (density_sums, "merge"),
            (dask_blocks, "placed"),
        ):
            noted(module, name, "work")
        noted(core_arrays, "synchronize", "wait")
        layout = dask_blocks.Layout(Whitening(np.asarray(0.5), D), np.dtype(np.float64), False, True)

        def task(function: Call, *args: Any, **options: Any) -> Any:
            events.clear()
            out = function(*args, **options)
            assert "work" in events
            assert events[-1] == "wait"
            return out

        x, y = (
            task(dask_blocks.prepare, X[rows], place=dask_blocks.Place("X", i, 0), layout=layout)
            for i, rows in enumerate((slice(0, 100), slice(100, 230)))
        )
        options = {"options": Options("float64"), "ratio": True}
        (own,) = task(dask_blocks.among, [x, y], **options)
        ((at_x,), _) = task(dask_blocks.between, [x], [y], **options)
        sums = task(dask_blocks.merge, [own[0], at_x])
        task(dask_blocks.debiased, x, sums, layout=layout)
        task(dask_blocks.pairs, x, [x, y], output="sum", options=Options("float64"), itself=True)


class TestDataFrames:
    frame = pd.DataFrame(X, columns=list("abc")).assign(w=W)

    def lazy(self) -> Any:
        import dask.dataframe as dd

        return dd.from_pandas(self.frame, npartitions=4)

    def test_of_unknown_lengths(self) -> None:
        frame = self.lazy()
        for call in (cukde.kde, cukde.sd_kde):
            got = call(frame[["a", "b", "c"]], frame[["a", "b", "c"]], 0.5, weights=frame["w"])
            assert np.isnan(got.shape[0])
            same(computed(got), call(X, X, 0.5, weights=W))

    def test_unweighted_rows_are_counted(self) -> None:
        frame = self.lazy()
        kept = frame[frame["a"] > 0][["a", "b", "c"]]
        same(computed(cukde.kde(kept, Y, 0.5)), cukde.kde(X[X[:, 0] > 0], Y, 0.5))

    def test_plain_weights_beside_unknown_lengths_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"weights must have the 4 blocks of X .*compute_chunk_sizes"):
            cukde.kde(self.lazy()[["a", "b", "c"]], Y, 0.5, weights=W)

    def test_no_rows_left(self) -> None:
        frame = self.lazy()[["a", "b", "c"]]
        with pytest.raises(ValueError, match="X must have at least one row; all of its blocks are empty"):
            cukde.kde(frame[frame["a"] > 99], Y, 0.5).compute()

    def test_other_collections_are_refused(self) -> None:
        with pytest.raises(TypeError, match=r"X must be a Dask array, a Dask data frame or .* got Delayed"):
            cukde.kde(dask.delayed(X), Y, 0.5)

    def test_unknown_columns_are_refused(self) -> None:
        x = da.from_array(X, chunks=100)
        with pytest.raises(ValueError, match=r"X must have a known number of columns; write X\.compute_chunk_sizes"):
            cukde.kde(x[:, x[0] > -99], Y, 0.5)


def explodes(block: np.ndarray) -> np.ndarray:
    raise AssertionError("computed")


class TestLazy:
    def test_nothing_is_computed_when_the_graph_is_made(self) -> None:
        x = da.from_array(X, chunks=100).map_blocks(explodes, meta=np.empty((0, 0)))
        for call in CALLS.values():
            lazy = call(x, x)
        with pytest.raises(AssertionError, match="computed"):
            computed(lazy)

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (ValueError, "Y must have 3 columns like X", lambda x: cukde.kde(x, Y[:, :2], 0.5)),
            (TypeError, "X must be a plain array where X has three", lambda x: cukde.kde(x[None], Y, 0.5)),
            (TypeError, "Y must hold real numbers", lambda x: cukde.kde(x, x.astype(object), 0.5)),
            (ValueError, "h must be a number", lambda x: cukde.kde(x, Y, "scott")),
            (TypeError, r"h must be a number .* h\.compute\(\)", lambda x: cukde.kde(x, Y, x[0])),
            (TypeError, r"write score_bandwidth\.compute", lambda x: cukde.debias(x, 0.5, score_bandwidth=x[0])),
            (ValueError, r"weights must have shape \(230,\)", lambda x: cukde.kde(x, Y, 0.5, weights=W[1:])),
            (ValueError, r"local_factors must have shape", lambda x: cukde.kde(x, Y, 0.5, local_factors=x)),
            (ValueError, r"V must have shape \(230,\)", lambda x: cukde.kernel_sum(x, V[1:], Y, 0.5)),
        ],
    )
    def test_forms_are_checked_at_once(self, error: type[Exception], message: str, call: Call) -> None:
        with pytest.raises(error, match=message):
            call(da.from_array(X, chunks=100))

    def test_equal_calls_have_equal_keys(self) -> None:
        def names(h: Any = 0.5, rows: int = 100, **options: Any) -> tuple[str, ...]:
            x, y = da.from_array(X, chunks=rows), da.from_array(Y, chunks=50)
            of_both = cukde.kde(x, y, h, **options), cukde.sd_kde(x, y, h, **options)
            return tuple(a.name for a in of_both)

        options: list[dict[str, Any]] = [
            {},
            {"h": 0.6},
            {"h": COVARIANCE},
            {"rows": 70},
            {"log": True},
            {"weights": W},
            {"weights": W + 1},
            {"precision": "ieee"},
            {"deterministic": True},
            {"check_finite": False},
        ]
        found = [names(**o) for o in options]
        assert found == [names(**o) for o in options]
        assert len(set(itertools.chain(*found))) == 2 * len(options)

    def test_results_of_a_pass_are_shared(self) -> None:
        x, y = da.from_array(X, chunks=100), da.from_array(Y, chunks=50)
        a, b = (cukde.kde(x, y, 0.5, log=log) for log in (False, True))
        own = [{key for key in of.__dask_graph__() if "cukde-sums" in key[0]} for of in (a, b)]
        assert own[0] == own[1] != set()

    def test_each_task_runs_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Sources, debiased blocks and pairs: no fusion repeats what pairs of blocks share."""
        calls: Counter[str] = Counter()

        def counted(name: str, function: Call) -> Call:
            def call(*args: Any, **options: Any) -> Any:
                calls[name] += 1
                return function(*args, **options)

            return call

        monkeypatch.setattr(dask_blocks, "pair", counted("pair", dask_blocks.pair))
        monkeypatch.setattr(dask_blocks, "mutual", counted("mutual", dask_blocks.mutual))
        monkeypatch.setattr(dask_blocks, "shift", counted("shift", dask_blocks.shift))
        source = counted("source", lambda block: block)
        x, y = (da.from_array(a, chunks=(30, -1)).map_blocks(source, meta=np.empty((0, 0))) for a in (X, Y))
        computed(cukde.sd_kde(x, y, 0.5))
        assert calls == {"source": 8 + 3, "shift": 8, "mutual": 8 * 7 / 2, "pair": 8 + 3 * 8}

    def test_persist_store_and_progress(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        lazy = cukde.sd_kde(da.from_array(X, chunks=(100, -1)), da.from_array(Y, chunks=(50, -1)), 0.5)
        want = cukde.sd_kde(X, Y, 0.5)
        file = np.lib.format.open_memmap(tmp_path / "out.npy", mode="w+", dtype=np.float64, shape=(M,))
        with ProgressBar(dt=0.01):
            kept = lazy.persist(scheduler="threads")
        assert "100%" in capsys.readouterr().out
        da.store(kept, file)
        same(np.asarray(file), want)
        same(computed(kept.sum()), want.sum())

    def test_plain_calls_never_load_dask(self) -> None:
        code = (
            "import sys; import numpy as np; import cukde; sys.modules['dask'] = None; "
            "print(cukde.kde(np.zeros((3, 2)), np.zeros((1, 2)), 1.0).shape, 'dask.array' in sys.modules)"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.split() == ["(1,)", "False"]


class TestBlocksThatAreWrong:
    @staticmethod
    def spoiled(a: np.ndarray, row: int, value: float = np.nan) -> np.ndarray:
        out = a.copy()
        out[row] = value
        return out

    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("X", lambda bad, x: cukde.kde(blocks(bad(X), 100), Y, 0.5)),
            ("X", lambda bad, x: cukde.sd_kde(blocks(bad(X), 100), Y, 0.5)),
            ("Y", lambda bad, x: cukde.score(x, blocks(bad(X), 100), 0.5)),
            ("weights", lambda bad, x: cukde.kde(x, Y, 0.5, weights=bad(W))),
            ("V", lambda bad, x: cukde.kernel_sum(x, bad(V), Y, 0.5)),
            ("local_factors", lambda bad, x: cukde.kde(x, Y, 0.5, local_factors=bad(FACTORS))),
        ],
    )
    @pytest.mark.parametrize("value", [np.nan, -np.inf])
    def test_not_finite(self, name: str, call: Call, value: float) -> None:
        message = (
            rf"{name} must be finite; block 1 holds NaN or infinity in 2 of its rows, the first: 23, 24 "
            r"\(rows 123, 124 of the array\)"
        )
        lazy = call(lambda a: self.spoiled(a, slice(123, 125), value), blocks(X, 100))
        with pytest.raises(ValueError, match=message):
            computed(lazy)

    def test_unchecked(self) -> None:
        got = computed(cukde.kde(blocks(X, 100), blocks(self.spoiled(Y, 60), 50), 0.5, check_finite=False))
        want = cukde.kde(X, Y, 0.5)
        same(np.delete(got, 60), np.delete(want, 60))

    def test_unchecked_infinities_of_both_signs(self) -> None:
        """Whose mean is NaN, without a warning."""
        x = np.array([[np.inf, 0.0], [-np.inf, 1.0]])
        assert computed(cukde.debias(blocks(x, 2), COVARIANCE[:2, :2], check_finite=False)).shape == x.shape

    @pytest.mark.parametrize(
        ("message", "call"),
        [
            (
                r"weights must not be negative; the smallest is -1: .* \(block 1 of X\)",
                lambda x, bad: cukde.kde(x, Y, 0.5, weights=bad(W, 150, -1.0)),
            ),
            ("weights must not all be zero", lambda x, bad: cukde.kde(x, Y, 0.5, weights=0 * W)),
            (
                r"local_factors must be positive; the smallest is 0 \(block 2 of X\)",
                lambda x, bad: cukde.kde(x, Y, 0.5, local_factors=bad(FACTORS, 201, 0.0)),
            ),
            ("X and Y must lie within 1e", lambda x, bad: cukde.kde(blocks(bad(X, 0, 1e160), 100), Y, 0.5)),
        ],
    )
    def test_values_that_are_refused(self, message: str, call: Call) -> None:
        with pytest.raises(ValueError, match=message):
            computed(call(blocks(X, 100), self.spoiled))

    def test_weights_of_another_length_in_a_block(self) -> None:
        x = da.from_array(X, chunks=(100, -1))
        x, w = x[x[:, 0] > 0], da.from_array(W, chunks=100)
        with pytest.raises(ValueError, match=r"weights must have shape .* \(block \d of X\)"):
            computed(cukde.kde(x, Y, 0.5, weights=w))


def test_clipped_mass_is_reported_block_by_block() -> None:
    y = np.concatenate([Y, Y + 3])
    lazy = cukde.laplace_kde(blocks(X, 100), da.from_array(y, chunks=(90, -1)), 0.4, negative="clip")
    with pytest.warns(cukde.NegativeDensityWarning) as warned:
        got = computed(lazy)
    signed = cukde.laplace_kde(X, y, 0.4)
    same(got, np.maximum(signed, 0))
    counts = [int((part < 0).sum()) for part in (signed[:90], signed[90:])]
    assert min(counts) > 0
    said = {str(warning.message).partition(" of ")[0] for warning in warned}
    assert said == {f"laplace_kde clipped {count}" for count in counts}


class TestBlockRule:
    @pytest.mark.parametrize(
        ("given", "rows", "chunks"),
        [
            ((10, 20, 30), 10, (10, 20, 10, 10, 10)),
            ((0, 5, 0), 10, (0, 5, 0)),
            ((2001,), 1000, (667, 667, 667)),
            ((1,) * 64, 10, (1,) * 64),
            ((1,) * 65, 10, (10,) * 6 + (5,)),
            ((7,) * 100, 10, (7,) * 100),
        ],
    )
    def test_chunks(self, given: tuple[int, ...], rows: int, chunks: tuple[int, ...]) -> None:
        assert dask_chunks.regular(given, rows) == chunks

    def test_thousands_of_tiny_blocks_are_joined(self) -> None:
        x = da.zeros((40_000, 2), chunks=(10, 2))
        lazy = cukde.kde(x, x, 0.5)
        assert lazy.numblocks == (2,)

    def test_a_large_block_is_cut(self) -> None:
        assert cukde.kde(da.zeros((10**6, 3), chunks=-1), Y, 0.5).numblocks == (1,)
        assert cukde.score(X, da.zeros((10**6, 3), chunks=-1), 0.5).numblocks == (31, 1)
        assert cukde.kde(X[:, 0], da.zeros(10**6, chunks=-1), 0.5).numblocks == (1,)

    def test_a_graph_of_64_by_64_blocks_is_small(self) -> None:
        x = da.zeros((64, 3), chunks=(1, -1))
        graph = cukde.kde(x, da.ones((64, 3), chunks=(1, -1)), 0.5).__dask_graph__()
        stages = Counter(key[0].rpartition("-")[0] for key in graph if key[0].startswith("cukde"))
        assert stages == {
            "cukde-data": 64,
            "cukde-queries": 64,
            "cukde-sums": 512,
            "cukde-merge": 64,
            "cukde-density": 64,
        }


def test_threads_of_dask_share_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four threads of Dask never make more than the engine's own number of threads work at once."""
    from cukde.density.pairs.cpu import passes as pairs_passes

    lock, most, running = threading.Lock(), 0, 0
    block = pairs_passes._Sums._block

    def watched(self: Any, rows: slice, data: slice) -> Any:
        nonlocal most, running
        with lock:
            running += 1
            most = max(most, running)
        try:
            time.sleep(0.002)
            return block(self, rows, data)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr(threads, "count", lambda: 2)
    monkeypatch.setattr(pairs_passes._Sums, "_block", watched)
    pool = WorkerPool(lambda: 2)
    monkeypatch.setattr(threads, "_workers", pool)
    x = np.random.default_rng(0).standard_normal((2000, 3))
    lazy = cukde.kde(da.from_array(x, chunks=(500, -1)), da.from_array(x, chunks=(500, -1)), 0.5)
    same(computed(lazy, scheduler="threads", num_workers=4), cukde.kde(x, x, 0.5))
    pool.close()
    assert most == 2


def computed_in_the_cluster(lazy: da.Array) -> None:
    lazy.compute()
    time.sleep(0.3)  # warnings come by another way than results


@pytest.fixture(scope="class")
def cluster() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.worker.profile.enabled": False}),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as made,
        Client(made) as client,
    ):
        yield client


class TestCluster:
    @pytest.mark.long
    def test_a_worker_killed_in_the_middle_changes_nothing(self, cluster: Any, tmp_path: Path) -> None:
        """The last block of data comes only after the kill; the victim has finished part of the sums by then."""
        x = np.random.default_rng(1).standard_normal((1500, 3))
        go = str(tmp_path / "go")

        def wait(block: np.ndarray) -> np.ndarray:
            while not os.path.exists(go):
                time.sleep(0.02)
            return block

        lazy = da.from_array(x, chunks=(250, -1))
        lazy = da.concatenate([lazy[:1250], lazy[1250:].map_blocks(wait, meta=np.empty((0, 0)))])
        y = np.concatenate([Y, x[-30:]])
        result = cukde.dask.sd_kde(lazy, y, 0.5).persist()

        def victim() -> int | None:
            """The process of a worker that holds sums over a pair of blocks."""
            holds = cluster.has_what()
            info = cluster.scheduler_info(n_workers=-1)["workers"]
            for address, keys in holds.items():
                if address in info and any("cukde-part" in str(key) for key in keys):
                    return int(cluster.run(os.getpid, workers=[address], on_error="ignore")[address])
            return None

        until = time.monotonic() + 60
        while (pid := victim()) is None:
            assert time.monotonic() < until, "no worker took up the sums"
            time.sleep(0.05)
        os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows every signal ends a process
        Path(go).touch()
        same(result.compute(), cukde.sd_kde(x, y, 0.5))
        assert pid not in cluster.run(os.getpid).values()

    def test_warnings_and_errors_reach_the_caller(self, cluster: Any) -> None:
        lazy = cukde.laplace_kde(blocks(X, 100), Y + 3, 0.4, negative="clip")
        with pytest.warns(cukde.NegativeDensityWarning, match="of 90 densities"):
            computed_in_the_cluster(lazy)
        bad = X.copy()
        bad[7] = np.nan
        with pytest.raises(ValueError, match="block 0 holds NaN"):
            cukde.kde(blocks(bad, 100), Y, 0.5).compute()


def test_a_form_names_the_keyword_that_it_does_not_have() -> None:
    lazy = da.from_array(X, chunks=(60, -1))
    with pytest.raises(TypeError, match=r"kde\(\) got an unexpected keyword argument 'bandwidth': here it is h"):
        cukde.dask.kde(lazy, X, 0.5, bandwidth=0.5)
    with pytest.raises(TypeError, match=r"kde\(\) too many positional arguments"):
        cukde.dask.kde(lazy, X, 0.5, W)
    with pytest.raises(TypeError, match="positional argument"):
        cukde.kde(lazy, X, 0.5, W)


class TestLeaveOneOut:
    """Densities at their own rows without a row's own kernel."""

    CALLS = {name: call for name, call in CALLS.items() if "kernel_sum" not in name and "debias" not in name} | {
        "kde of a domain": lambda X, Y, **o: cukde.kde(
            X, Y, 0.5, bounds=[None, None, (-5, 5)], periods=[None, 7.0, None], **o
        ),
    }
    HEAVY = np.where(np.arange(N) == 120, 1e12, W)

    @staticmethod
    def close(got: Any, want: Any) -> None:
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-12 * abs(other).max())

    @pytest.mark.parametrize("chunks", CHUNKS)
    @pytest.mark.parametrize("call", CALLS)
    def test_equals_plain_arrays(self, call: str, chunks: str) -> None:
        x = blocks(X, CHUNKS[chunks][0])
        for weights in (None, W, self.HEAVY):
            options = {"weights": weights, "leave_one_out": True}
            self.close(computed(self.CALLS[call](x, x, **options)), self.CALLS[call](X, X, **options))

    def test_blocks_on_the_backend(self, backend: Backend) -> None:
        x = da.from_array(backend.asarray(X.astype("f4")), chunks=(90, 3))
        got = backend.asnumpy(computed(cukde.kde(x, x, 0.5, log=True, leave_one_out=True)))
        np.testing.assert_allclose(got, cukde.kde(X, X, 0.5, log=True, leave_one_out=True), rtol=1e-4, atol=1e-4)

    def test_boxes_leave_out_no_block_beside_an_own_kernel(self) -> None:
        far = np.sort(X[:, 0]) * 10
        x = da.from_array(far, chunks=23)
        got = cukde.dask.kde(x, x, 0.01, log=True, boxes=cukde.dask.block_boxes(x), leave_one_out=True)
        self.close(computed(got), cukde.kde(far, far, 0.01, log=True, leave_one_out=True))

    def test_what_does_not_fit_is_refused(self) -> None:
        x = blocks(X, (100, 130))
        with pytest.raises(ValueError, match="leave_one_out=True needs the data themselves as queries"):
            cukde.kde(x, X, 0.5, leave_one_out=True)
        for call in (
            lambda: cukde.score(x[:1], x[:1], 0.5, leave_one_out=True),
            lambda: computed(cukde.kde(x, x, 1.0, weights=np.eye(1, N)[0], leave_one_out=True)),
        ):
            with pytest.raises(ValueError, match="needs two rows or more"):
                call()


class TestDomains:
    """Blocks and their images."""

    X = np.stack([RNG.exponential(size=N), RNG.normal(0, 3, N), RNG.beta(2, 5, N)], axis=1)
    Y = np.abs(Y)  # some of the third column above its bound
    DOMAIN: ClassVar[dict[str, Any]] = {"bounds": [(0, None), None, (0, 1)], "periods": [None, 6.0, None]}
    H: ClassVar[list[float]] = [0.2, 0.5, 0.1]
    CALLS = {name: call for name, call in CALLS.items() if "factors" not in name and "kernel_sum" not in name} | {
        "product of columns": lambda X, Y, h, **o: cukde.kde(X, Y, 2.0, **o),
        "three steps": lambda X, Y, h, **o: cukde.sd_kde(X, Y, h, score_bandwidth=[0.1, 0.4, 0.1], steps=3, **o),
        "others": lambda X, Y, h, **o: cukde.sd_kde(X, Y, h, own_point=False, **o),
    }

    @pytest.mark.parametrize("weights", [None, W], ids=["equal", "weighted"])
    @pytest.mark.parametrize("call", CALLS)
    def test_equals_plain_arrays(self, call: str, weights: Any) -> None:
        options = {"weights": weights} | self.DOMAIN
        of_data, of_queries = CHUNKS["uneven and empty"]
        got = computed(self.CALLS[call](blocks(self.X, of_data), blocks(self.Y, of_queries), self.H, **options))
        want = self.CALLS[call](self.X, self.Y, self.H, **options)
        inside = slice(None) if "debias" in call else self.Y[:, 2] <= 1
        for one, other in zip(*(a if isinstance(a, tuple) else (a,) for a in (got, want)), strict=True):
            if not isinstance(inside, slice):
                assert not inside.all()
                np.testing.assert_array_equal(one[~inside], other[~inside])
            np.testing.assert_allclose(one[inside], other[inside], rtol=3e-12, atol=3e-12)

    def test_queries_may_be_the_data(self) -> None:
        x = blocks(self.X, (100, 130))
        for call in (cukde.kde, cukde.score):
            same(computed(call(x, x, self.H, **self.DOMAIN)), call(self.X, self.X, self.H, **self.DOMAIN))

    def test_far_blocks_have_the_images_that_matter(self) -> None:
        """Blocks that lie apart, of queries too: the least sum of each pair alone says which images are taken."""
        x, y, options = np.sort(self.X[:, 0]), np.linspace(0, 40, 60), {"log": True, "bounds": [(0, None)]}
        got = computed(cukde.kde(blocks(x, (100, 130)), blocks(y, (20, 40)), 0.05, **options))
        np.testing.assert_allclose(got, cukde.kde(x, y, 0.05, **options), rtol=1e-13, atol=1e-12)

    def test_blocks_on_the_backend(self, backend: Backend) -> None:
        lazy = [da.from_array(backend.asarray(a), chunks=(13, 3)) for a in (self.X[:60], self.Y[:20])]
        got = backend.asnumpy(computed(cukde.kde(*lazy, self.H, **self.DOMAIN)))
        np.testing.assert_allclose(got, cukde.kde(self.X[:60], self.Y[:20], self.H, **self.DOMAIN), rtol=1e-11)

    def test_data_outside_are_refused_with_their_block(self) -> None:
        x = self.X.copy()
        x[150, 0] = -1
        with pytest.raises(ValueError, match=r"1 of 130 rows have column 0 outside \[0, inf\].* \(block 1 of X\)"):
            computed(cukde.kde(blocks(x, (100, 130)), Y, self.H, **self.DOMAIN))
        unchecked = {"check_finite": False} | self.DOMAIN
        for f in (CALLS["kde"], CALLS["debias"]):
            got, want = (f(a, self.Y[:5], self.H, **unchecked) for a in (blocks(x, (100, 130)), x))
            np.testing.assert_allclose(computed(got), want, rtol=3e-12, atol=3e-12)

    def test_what_does_not_fit_is_refused_at_once(self) -> None:
        x = blocks(self.X, (100, 130))
        with pytest.raises(ValueError, match="bounds must have 3 entries"):
            cukde.kde(x, Y, self.H, bounds=[(0, 1)])
        with pytest.raises(ValueError, match="score_bandwidth must not correlate"):
            cukde.debias(x, self.H, score_bandwidth=np.eye(3) + 0.1, bounds=self.DOMAIN["bounds"])
        with pytest.raises(ValueError, match="boxes must be None beside bounds or periods"):
            cukde.dask.kde(x, Y, self.H, boxes=cukde.dask.block_boxes(x), **self.DOMAIN)


class TestPositive:
    """The positive estimate, and its mass against the integral."""

    X, Y = RNG.standard_normal((120, 2)), RNG.standard_normal((40, 2))
    W = np.where(np.arange(120) < 50, 0.0, RNG.exponential(size=120))

    @pytest.mark.parametrize("rows", [(120,), (50, 0, 1, 69)], ids=["one block", "uneven and empty"])
    @pytest.mark.parametrize("h", [0.5, [0.4, 0.6]], ids=["number", "deviations"])
    def test_equals_plain_arrays(self, h: Any, rows: tuple[int, ...]) -> None:
        options, lazy = {"weights": self.W, "mass": 1.2, "log": True}, blocks(self.X, rows)
        got = computed(cukde.positive_kde(lazy, self.Y, h, **options))
        np.testing.assert_allclose(got, cukde.positive_kde(self.X, self.Y, h, **options), rtol=1e-12, atol=1e-12)
        want = cukde.positive_score(self.X, self.Y, h, weights=self.W)
        got = computed(cukde.positive_score(lazy, self.Y, h, weights=self.W))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * abs(want).max())

    @pytest.mark.parametrize("domain", [{}, {"bounds": [(-4, None), None], "periods": [None, 9.0]}], ids=str)
    def test_mass_is_within_its_error(self, domain: dict[str, Any]) -> None:
        axes = [np.linspace(-4, 8, 121), np.linspace(0, 9, 91)] if domain else 2 * [np.linspace(-8, 8, 81)]
        exact = cukde.positive_mass(self.X, 0.5, axes=axes, weights=self.W, **domain).value
        mass = cukde.positive_mass(blocks(self.X, (50, 0, 1, 69)), 0.5, weights=self.W, samples=4000, **domain)
        value, error = computed((mass.value, mass.error))
        assert value.shape == ()
        assert 0 < error < 0.01
        assert abs(value - exact) < 4 * error

    def test_mass_that_is_not_given_is_estimated(self) -> None:
        data = blocks(self.X, (50, 70))
        mass = cukde.positive_mass(data, 0.4)
        want = cukde.positive_kde(self.X, self.Y, 0.4, mass=float(computed(mass.value)))
        for given in (None, mass, mass.value):
            np.testing.assert_allclose(computed(cukde.positive_kde(data, self.Y, 0.4, mass=given)), want, rtol=1e-12)

    def test_refuses_what_needs_data_in_memory(self) -> None:
        data = blocks(self.X, (120,))
        with pytest.raises(ValueError, match="axes must be None for Dask arrays"):
            cukde.positive_mass(data, 0.4, axes=[[0, 1, 2], [0, 1, 2]])
        with pytest.raises(ValueError, match=r"mass must be one number, a Dask array of shape \(\)"):
            cukde.positive_kde(data, self.Y, 0.4, mass=da.ones(3))
