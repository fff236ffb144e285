"""Blocks of Dask collections that are not what the collection declares, in every function that takes some."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

import cukde

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
cukde_dask = pytest.importorskip("cukde.dask")

rng = np.random.default_rng(0)
ROWS = rng.normal(size=(60, 2))
Y = ROWS[:3]

CALLS: dict[str, Callable[[Any], Any]] = {
    "kde": lambda X: cukde.kde(X, Y, 0.5),
    "leave_one_out": lambda X: cukde.kde(X, None, 0.5, leave_one_out=True),
    "queries": lambda X: cukde.kde(ROWS, X, 0.5),
    "score": lambda X: cukde.score(X, X, 0.5),
    "density_and_score": lambda X: cukde.density_and_score(X, Y, 0.5)[0],
    "debias": lambda X: cukde.debias(X, 0.5),
    "sd_kde": lambda X: cukde.sd_kde(X, Y, 0.5),
    "laplace_kde": lambda X: cukde.laplace_kde(X, Y, 0.5),
    "positive_kde": lambda X: cukde.positive_kde(X, Y, 0.5),
    "kernel_sum": lambda X: cukde.kernel_sum(X, X, Y, 0.5),
    "marginal": lambda X: cukde.marginal(X, [0], Y[:, 0], 0.5),
    "conditional": lambda X: cukde.conditional(X, {1: 0.5}, Y[:, 0], 0.5),
    "density_ratio": lambda X: cukde.density_ratio(X, X + 1, Y, 0.5),
    "hdr_threshold": lambda X: cukde.hdr_threshold(X, 0.5, 0.5),
    "evaluate_grid": lambda X: cukde.evaluate_grid(X, [np.linspace(-1, 1, 4)] * 2, 0.5),
    "modes": lambda X: cukde.modes(X, 0.5, seeds=Y)[0],
    "kendall_matrix": lambda X: cukde.kendall_matrix(X),
    "block_boxes": lambda X: cukde_dask.block_boxes(X).rows,
    "KernelDensity": lambda X: cukde.KernelDensity(bandwidth=0.5).fit(X).score_samples(Y),
    "silverman": lambda X: cukde.KernelDensity(bandwidth="silverman").fit(X).score_samples(Y),
    "sample": lambda X: cukde.KernelDensity(bandwidth=0.5).fit(X).sample(3, random_state=0),
    "polynomial": lambda X: cukde.PiecewisePolynomial([[1.0], [0.0]], [0, 1])(X),
    "pwpa": lambda X: cukde.pwpa(X, [[1.0, 0.0]], [0, 1]),
    "depthwise_conv1d": lambda X: cukde.depthwise_conv1d(X[:, :, None], np.ones((2, 1))),
}


AS_GIVEN = [name for name in CALLS if name not in ("depthwise_conv1d", "density_ratio")]
"""Those that are given the collection itself, which may be a frame."""


@pytest.fixture(autouse=True)
def _in_this_thread() -> Any:
    with dask.config.set(scheduler="sync"):
        yield


def computed(a: Any) -> np.ndarray:
    return np.asarray(a.compute() if hasattr(a, "compute") else a)


def made(function: Callable[[np.ndarray], Any], chunks: Any = (20, 2)) -> Any:
    """Blocks that a function makes of those of ``ROWS``, of which Dask knows nothing."""
    return da.from_array(ROWS, chunks=chunks).map_blocks(function, dtype=float, meta=np.empty((0, 0)))


@pytest.mark.parametrize("name", CALLS)
def test_blocks_without_some_of_their_rows(name: str) -> None:
    """An error before any sum; the advice makes the call equal to that of plain rows."""

    def kept(block: np.ndarray) -> np.ndarray:
        return block[block[:, 0] > -1]

    with pytest.raises(ValueError, match=r"block .* has shape .*declares .*compute_chunk_sizes\(\)"):
        computed(CALLS[name](made(kept)))
    right = made(kept).compute_chunk_sizes()
    np.testing.assert_allclose(
        computed(CALLS[name](right)), computed(CALLS[name](da.from_array(kept(ROWS), chunks=right.chunks))), rtol=1e-12
    )


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    chunks=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    block=st.integers(0, 4),
    change=st.sampled_from(["fewer", "more", "columns", "dimensions", "none"]),
    unknown=st.booleans(),
)
def test_any_chunks(chunks: list[int], block: int, change: str, unknown: bool) -> None:
    """A block of another shape is an error; what has no known size may have any."""
    sizes = tuple([*chunks, 60])
    ends = np.cumsum(sizes)
    sizes = tuple(size for size, end in zip(sizes, ends, strict=True) if end < 60)
    sizes = (*sizes, 60 - sum(sizes))

    def changed(a: np.ndarray, block_id: tuple[int, ...]) -> np.ndarray:
        if block_id[0] != block % len(sizes):
            return a
        other = {"fewer": a[1:], "more": np.repeat(a, 2, axis=0), "columns": a[:, :1], "dimensions": a[:, 0]}
        return other.get(change, a)

    X = made(changed, (sizes, 2))
    if unknown:
        X._chunks = ((float("nan"),) * len(sizes), *X.chunks[1:])
    if change == "none" or (unknown and change in ("fewer", "more")):
        first = sum(sizes[: block % len(sizes)])
        rows = [changed(part, (i,)) for i, part in enumerate(np.split(ROWS, np.cumsum(sizes)[:-1]))]
        assert first < 60
        np.testing.assert_allclose(cukde.kde(X, Y, 0.5).compute(), cukde.kde(np.concatenate(rows), Y, 0.5), rtol=1e-12)
    else:
        with pytest.raises(ValueError, match="blocks of a Dask array must have the shapes that it declares"):
            cukde.kde(X, Y, 0.5).compute()


@pytest.mark.parametrize(
    ("declared", "own", "right"),
    [("f4", "f8", False), ("f4", "i8", False), ("f8", "f4", True), ("i8", "f8", True), ("f4", "f2", True)],
)
def test_blocks_of_another_dtype(declared: str, own: str, right: bool) -> None:
    """Numbers that the declared dtype would round are refused."""
    X = da.from_array(np.round(ROWS * 4), chunks=20).map_blocks(lambda a: a.astype(own), dtype=declared)
    if right:
        assert cukde.kde(X, Y, 0.5).compute() == pytest.approx(cukde.kde(np.round(ROWS * 4), Y, 0.5), rel=1e-5)
        return
    with pytest.raises(TypeError, match=r"must have the dtype that it declares: .*give the function that makes"):
        cukde.kde(X, Y, 0.5).compute()


@pytest.mark.parametrize("name", AS_GIVEN)
@pytest.mark.parametrize("kind", ["list", "frame", "tensor"])
def test_blocks_that_are_no_arrays(name: str, kind: str) -> None:
    """As arrays of the same numbers."""
    make: Callable[[np.ndarray], Any] = {"list": np.ndarray.tolist, "frame": pd.DataFrame}.get(kind, np.asarray)
    if kind == "tensor":
        make = pytest.importorskip("torch").asarray
    np.testing.assert_allclose(computed(CALLS[name](made(make))), computed(CALLS[name](made(np.asarray))), rtol=1e-12)


LABELLED: dict[str, Callable[[Any, Any], Any]] = {
    "kde": lambda X, w: cukde.kde(X, Y, 0.5, weights=w),
    "kernel_sum": lambda X, w: cukde.kernel_sum(X, w, Y, 0.5),
    "evaluate_grid": lambda X, w: cukde.evaluate_grid(X, [np.linspace(-1, 1, 4)] * 2, 0.5, weights=w),
    "hdr_threshold": lambda X, w: cukde.hdr_threshold(X, 0.5, 0.5, weights=w),
    "block_boxes": lambda X, w: cukde_dask.block_boxes(X, weights=w).log_mass,
    "KernelDensity": lambda X, w: (
        cukde.KernelDensity(bandwidth=0.5).fit(X, sample_weight=w).score_samples(pd.DataFrame(Y, columns=["a", "b"]))
    ),
    "kendall_matrix": lambda X, w: cukde.kendall_matrix(X, w.to_frame() if hasattr(w, "to_frame") else w[:, None]),
}


@pytest.mark.parametrize("name", LABELLED)
def test_labels_in_another_order(name: str) -> None:
    """Rows of frames side by side have the same labels, or it is an error; arrays go by position."""
    frame = dd.from_pandas(pd.DataFrame(ROWS, columns=["a", "b"]), npartitions=3)
    weights = pd.Series(rng.random(60), index=frame.index.compute())
    given = dd.from_pandas(weights, npartitions=3)
    reversed_ = dd.from_pandas(weights[::-1], npartitions=3, sort=False)
    call = LABELLED[name]
    np.testing.assert_array_equal(computed(call(frame, given)), computed(call(frame, given.to_dask_array())))
    with pytest.raises(ValueError, match=r"must have the labels of the rows beside it.*to_dask_array\(\)"):
        computed(call(frame, reversed_))
    assert not np.array_equal(computed(call(frame, reversed_.to_dask_array())), computed(call(frame, given)))


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "Int64", "boolean", "double[pyarrow]", "int64[pyarrow]"])
def test_nullable_blocks(dtype: str) -> None:
    """As the plain frame; missing values are refused, or are NaN of a policy."""
    plain = pd.DataFrame(np.round(ROWS * 4) if dtype != "boolean" else ROWS > 0, columns=["a", "b"]).astype(dtype)
    frame = dd.from_pandas(plain, npartitions=3)
    np.testing.assert_allclose(computed(cukde.kde(frame, Y, 0.5)), cukde.kde(plain, Y, 0.5), rtol=1e-6)
    plain.iloc[3, 0] = pd.NA
    frame = dd.from_pandas(plain, npartitions=3)
    with pytest.raises(ValueError, match="X must be finite; block 0 holds NaN"):
        computed(cukde.kde(frame, Y, 0.5))
    for policy in ("propagate", "omit"):
        want = cukde.kendall_matrix(plain, nan_policy=policy)
        np.testing.assert_array_equal(computed(cukde.kendall_matrix(frame, nan_policy=policy)), np.asarray(want))


def frame_of(parts: list[pd.DataFrame], declared: pd.DataFrame) -> Any:
    """A frame whose blocks Dask does not look at."""
    return dd.from_map(lambda i: parts[i], range(len(parts)), meta=declared.iloc[:0])


@pytest.mark.parametrize("name", AS_GIVEN)
@pytest.mark.parametrize("change", ["order", "names", "more", "fewer"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_frames_with_blocks_of_other_columns(name: str, change: str) -> None:
    """Columns would be taken by position, one for another."""
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    rest = frame.iloc[20:]
    other = {
        "order": rest[["b", "a"]],
        "names": rest.rename(columns={"b": "c"}),
        "more": rest.assign(c=1.0),
        "fewer": rest[["a"]],
    }[change]
    with pytest.raises(ValueError, match=r"must have the columns that a Dask data frame declares .*the frame declares"):
        computed(CALLS[name](frame_of([frame.iloc[:20], other], frame)))


@pytest.mark.parametrize("name", AS_GIVEN)
@pytest.mark.parametrize("dtype", ["Float64", "float", "object", "category"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_frames_with_blocks_of_another_dtype(name: str, dtype: str) -> None:
    """Numbers are the same ones whatever holds them; other columns are refused by their names."""
    frame = pd.DataFrame(np.round(ROWS * 4), columns=["a", "b"])
    X = frame_of([frame.iloc[:20].astype(int), frame.iloc[20:].astype(dtype)], frame.astype(int))
    if dtype in ("object", "category"):
        with pytest.raises(TypeError, match=r"^\w+ .*'a'"):
            computed(CALLS[name](X))
        return
    want = CALLS[name](dd.from_pandas(frame, npartitions=1).repartition(divisions=[0, 20, 59]))
    np.testing.assert_allclose(computed(CALLS[name](X)), computed(want), rtol=1e-12)


def test_a_sum_of_a_frame_is_no_data() -> None:
    frame = dd.from_pandas(pd.DataFrame(ROWS, columns=["a", "b"]), npartitions=2)
    with pytest.raises(TypeError, match="X must be a Dask array, a Dask data frame or a plain array; got Scalar"):
        cukde.kde(frame.a.sum(), Y[:, 0], 0.5)


def test_nullable_blocks_wider_than_declared() -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b"])
    X = frame_of([frame.astype("Float64")], frame.astype("Float32"))
    with pytest.raises(TypeError, match="must have the dtype that it declares"):
        cukde.kde(X, Y, 0.5).compute()


@pytest.mark.parametrize("method", ["kde", "sd"])
@pytest.mark.parametrize("kind", ["array", "frame"])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_an_estimator_of_integers_that_would_be_rounded(kind: str, method: str) -> None:
    rows = 2**53 + np.arange(40).reshape(20, 2)
    frame = dd.from_pandas(pd.DataFrame(rows, columns=["a", "b"]), npartitions=2)
    X = frame if kind == "frame" else da.from_array(rows, chunks=(5, 2))
    model = cukde.KernelDensity(bandwidth=1.0, method=method).fit(X)
    with pytest.raises(ValueError, match="X must hold integers that float64 has"):
        computed(model.score_samples(np.zeros((1, 2))))


@pytest.mark.parametrize("name", ["score", "density_and_score", "debias", "sd_kde", "positive_score"])
def test_ratios_of_data_without_weight(name: str) -> None:
    """They would be NaN."""
    queries = () if name == "debias" else (Y,)

    def call(X: Any, **options: Any) -> np.ndarray:
        result = getattr(cukde, name)(X, *queries, 0.5, **options)
        return computed(result[1] if isinstance(result, tuple) else result)

    X = da.from_array(ROWS, chunks=(20, 2))
    with pytest.raises(ValueError, match=r"^weights\b"):
        call(X, weights=da.zeros(60, chunks=20))
    if name != "debias":  # which is of no rows, too
        with pytest.raises(ValueError, match="X must have at least one row; all of its blocks are empty"):
            call(X[X[:, 0] > 100])


def test_samples_by_negative_weights() -> None:
    weights = da.from_array(np.where(np.arange(60) == 30, -1.0, 1.0), chunks=20)
    model = cukde.KernelDensity(bandwidth=0.5).fit(da.from_array(ROWS, chunks=(20, 2)), sample_weight=weights)
    with pytest.raises(ValueError, match=r"^sample_weight\b.*1"):
        model.sample(3, random_state=0)


IN_MEMORY: dict[str, Callable[[Any], Any]] = {
    **{
        name: getattr(cukde.bandwidth, name)
        for name in ("scott", "silverman", "sd", "laplace", "positive", "isj", "cross_validate", "select")
    },
    "abramson": lambda X: cukde.bandwidth.abramson(X, 0.5),
    "weights": lambda w: cukde.bandwidth.scott(ROWS, weights=w),
    "kendalltau": lambda x: cukde.kendalltau(x, x),
    "concordance": cukde.concordance,
    "cdf": lambda x: cukde.cdf(x, Y[:, 0], 0.5),
    "log_cdf": lambda x: cukde.log_cdf(ROWS[:, 0], x, 0.5),
    "gaussian_kde": lambda X: cukde.gaussian_kde(X.T if X.ndim == 2 and hasattr(X, "chunks") else X),
    "weights of gaussian_kde": lambda w: cukde.gaussian_kde(ROWS.T, weights=w),
    "points": lambda X: cukde.gaussian_kde(ROWS.T)(X),
    "gelu": cukde.functions.gelu,
    "exp": cukde.functions.exp,
    "activation_grad": lambda z: cukde.activation_grad("silu", z),
    "depthwise_conv1d_input_grad": lambda g: cukde.depthwise_conv1d_input_grad(g, np.ones((2, 1)), 60),
    "bandwidth": lambda h: cukde.cdf(ROWS[:, 0], Y[:, 0], h),
}


@pytest.mark.parametrize("name", IN_MEMORY)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_functions_without_a_form_for_collections(name: str, kind: str) -> None:
    """NumPy would compute them, columns of a frame rounded to a dtype that they share."""
    X = dd.from_pandas(pd.DataFrame({"a": 2**53 + np.arange(60), "b": ROWS[:, 0]}), npartitions=2)
    with pytest.raises(TypeError, match=r"must be an array in memory here; got a Dask collection: write \w+\.compute"):
        IN_MEMORY[name](X if kind == "frame" else X.to_dask_array())


def test_persisted_inputs_give_keys_no_other_tasks(caplog: pytest.LogCaptureFixture) -> None:
    """A cluster that holds a result of the input before it was persisted would warn of deadlocks."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)
    with caplog.at_level(logging.WARNING, "distributed.scheduler"), cluster, distributed.Client(cluster):
        X = da.from_array(ROWS, chunks=(20, 2)) + 1
        for call in (CALLS["kde"], CALLS["kendall_matrix"], CALLS["polynomial"]):
            first = call(X).persist()
            second = call(X.persist()).persist()
            np.testing.assert_array_equal(first.compute(), second.compute())
    assert "deadlock" not in caplog.text
