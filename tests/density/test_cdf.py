"""The distribution function of one dimension against sums of SciPy's log_ndtr in float64, in both tails.

Test bodies run on every backend; on the CPU by expansions of array operations and of compiled loops, point by point,
and over all pairs.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import special

import cukde
from cukde import perf
from cukde.core.plan import only
from cukde.density.one_dimension import cdf_pairs, plan as one_dimension_plan
from cukde.density.one_dimension.cpu import (
    cdf as one_dimension_cdf,
    passes as one_dimension_passes,
)
from tests import reference
from tests.conftest import Backend
from tests.density.test_api import Sample
from tests.density.test_cost import CPU
from tests.density.test_one_dimension import CASES, SINGLE, H, draw
from tests.perf.processors import H200
from tests.tolerances import FAR, LINE, NEAR, check

_LOG_HALF = -math.log(2)


def allowed_of(log_value: np.ndarray, dtype: str) -> np.ndarray:
    """Allowed error of the logarithm of a sum: the transform's, and where there is little 8 eps of the exponent."""
    far = np.where(-log_value > NEAR.value, FAR["float64"].value * -log_value, 0)
    return np.maximum(LINE[dtype].value, far)


Want = tuple[np.ndarray, np.ndarray]
"""Logarithms of what is below queries and above them."""


def verify(want: Want, F: np.ndarray, log_F: np.ndarray) -> None:
    """Check the function and its logarithm, each relative to itself."""
    below, above = want
    info = np.finfo(F.dtype)
    dtype = F.dtype.name
    assert log_F.dtype == F.dtype
    assert ((F >= 0) & (F <= 1)).all()
    right = np.exp(below)
    check(np.abs(F - right), right * (allowed_of(below, dtype) + 0.5 * info.eps) + info.tiny, "distribution function")

    assert np.isfinite(log_F).all()
    assert (log_F <= 0).all()
    left = below < _LOG_HALF
    error = np.abs(log_F - below)[left]
    check(error, (allowed_of(below, dtype) + 0.5 * info.eps * np.abs(below))[left], "its logarithm on the left")
    near_one = -np.log1p(-np.exp(np.minimum(above, _LOG_HALF)))
    error = np.abs(-log_F - near_one)[~left]
    allowed = near_one * (2 * allowed_of(above, dtype) + 2 * info.eps) + info.tiny
    check(error, allowed[~left], "its logarithm on the right")


def both(backend: Backend, X: Any, Y: Any, h: Any, w: Any = None, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    args = backend.asarray(X), backend.asarray(Y), h
    F, log_F = (f(*args, weights=backend.asarray(w), **options) for f in (cukde.cdf, cukde.log_cdf))
    return backend.asnumpy(F), backend.asnumpy(log_F)


def ways(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Ways in which a backend sums, one after the other; in the simulator all pairs alone, as others take seconds."""
    if backend.name == "cupy":
        with only("line"):
            yield "expansions"
        with only():
            yield "pairs"
        return
    if backend.name == "numpy":
        with only("line few", "line"):
            yield "array operations"
    on_cpu = ("expansions", 1e9), ("points", 0), ("pairs", 0)
    for name, pair_cost in on_cpu[: 3 if backend.name == "numpy" else 1]:
        monkeypatch.setattr(one_dimension_passes, "_PAIR_COST", pair_cost)
        with only(*([] if name == "pairs" else ["line"])) if backend.name == "numpy" else contextlib.nullcontext():
            yield name


@pytest.fixture
def expansions(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The first of these ways, on the CPU by compiled loops."""
    compiled = (way for way in ways(backend, monkeypatch) if way != "array operations")
    next(compiled)
    yield
    compiled.close()


@functools.cache
def sample(name: str, weights: str, dtype: str) -> tuple[Sample, Want]:
    s = draw(name, weights, dtype, 500, 90)
    return s, reference.log_distribution(s.X, s.Y, s.h, s.w)


@pytest.mark.parametrize(
    ("name", "weights", "dtype"),
    [(*case, "float64") for case in CASES] + [(name, "uniform", "float32") for name in (*SINGLE, "tiny units")],
)
def test_matches_reference(
    backend: Backend, name: str, weights: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    s, want = sample(name, weights, dtype)
    for _ in ways(backend, monkeypatch):
        verify(want, *both(backend, s.X, s.Y, s.h, s.w))


@pytest.mark.parametrize(("offset", "dtype"), [(0.0, "float64"), (1e6, "float64"), (300.0, "float32")])
def test_tails(backend: Backend, offset: float, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between clusters and beyond them, 5 to 10,000 bandwidths away, of data near zero and far from it."""
    rng = np.random.default_rng(0)
    x = (offset + H * (rng.standard_normal(400) + rng.choice([0.0, 60.0, 2e4], 400))).astype(dtype)
    away = H * np.array([5, 12, 39, 40, 300, 1e4])
    y = np.concatenate([x.min() - away, x.max() + away, [offset + 30 * H], np.sort(x)[::60]]).astype(dtype)
    want = reference.log_distribution(x, y, H)
    for _ in ways(backend, monkeypatch):
        verify(want, *both(backend, x, y, H))


@pytest.mark.parametrize(("dtype", "weighted"), [("float64", False), ("float64", True), ("float32", False)])
def test_many_points_of_a_box_left_of_which_there_are_many_queries(
    backend: Backend, dtype: str, weighted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boxes of hundreds of points are summed by their own expansions, near to the queries and far from them."""
    n = backend.size(3000, 300)
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 2, n // 2), rng.uniform(15, 16, n - n // 2)]).astype(dtype)
    y = np.concatenate([np.linspace(-14, 17, 200), [-100.0, -1e4, 40.0]]).astype(dtype)
    w = np.where(x < 3, 1e-30, rng.uniform(size=n)) if weighted else None
    want = reference.log_distribution(x, y, 1.0, w)
    for _ in ways(backend, monkeypatch):
        verify(want, *both(backend, x, y, 1.0, w))


@pytest.mark.parametrize(
    ("name", "weights", "dtype", "boxes"),
    [
        ("gaps", "skewed", "float32", "listed"),
        ("smooth", "unequal", "float64", "laid"),
        ("uniform", "uniform", "float32", "few points each"),
    ],
)
def test_kernels_of_the_gpu(
    device: Backend, name: str, weights: str, dtype: str, boxes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By expansions about boxes of which there are all or those that hold points, and point by point alone."""
    from cukde.core.gpu import numba_cuda
    from cukde.density.one_dimension.gpu import passes as gpu_passes

    monkeypatch.setattr(gpu_passes, "_POINTS_PER_CHUNK", 16)
    if boxes != "laid":
        few = device.size(1000, 100)  # more than hold points, and fewer than there are
        monkeypatch.setattr(one_dimension_plan, "FEW_BOXES", few if boxes == "listed" else 8)
    launched: list[str] = []
    launch = numba_cuda.launch

    def noted(chosen: Any, *others: Any) -> None:
        launched.append(chosen.kernel.name)
        launch(chosen, *others)

    monkeypatch.setattr(numba_cuda, "launch", noted)
    s = draw(name, weights, dtype, device.size(900, 100), device.size(150, 24))
    with only("line"):
        verify(reference.log_distribution(s.X, s.Y, s.h, s.w), *both(device, s.X, s.Y, s.h, s.w))
    of_boxes = ["bounds", "moments", "translate"] if boxes != "few points each" else []
    assert launched == 3 * [*of_boxes, "evaluate"]


def test_kernels_of_the_gpu_where_numbers_are_not_finite(device: Backend) -> None:
    x, y = np.linspace(-1, 1, 40), np.array([0.1, np.nan, -np.inf, np.inf])
    with only("line"):
        F = device.asnumpy(cukde.cdf(device.asarray(x), device.asarray(y), H, check_finite=False))
    np.testing.assert_allclose(F[[0, 2, 3]], [reference_at(x, 0.1), 0, 1], rtol=1e-12)
    assert np.isnan(F[1])


def test_running_sums(device: Backend) -> None:
    """Of one row and of several, the last one whole or not."""
    from cukde.density.one_dimension.gpu import boxes as one_dimension_boxes

    for n in (1, 1024, 1025, 5000):
        a = 10.0 ** np.random.default_rng(n).uniform(-30, 0, n)
        got = device.asnumpy(one_dimension_boxes.running_sums(device.asarray(a)))
        np.testing.assert_allclose(got[[0, n // 2, -1]], [a[0], math.fsum(a[: n // 2 + 1]), math.fsum(a)], rtol=1e-14)


def reference_at(x: np.ndarray, y: float) -> float:
    return float(np.exp(reference.log_distribution(x, [y], H)[0][0]))


def test_no_call_that_is_captured_waits(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.density.one_dimension.gpu import passes as gpu_passes

    monkeypatch.setattr("cukde.core.gpu.device.capturing", lambda: True)
    monkeypatch.setattr(gpu_passes.cp, "asnumpy", None, raising=False)
    x = np.linspace(-1, 1, 40)
    with only("line"):
        got = cukde.cdf(x, x[:1] + 0.3, H, check_finite=False)
    np.testing.assert_allclose(got, [reference_at(x, x[0] + 0.3)], rtol=1e-12)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_data(data: Any) -> None:
    """Of the CPU, by boxes: sizes, scales, offsets and weights of all kinds."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    dtype = data.draw(st.sampled_from(["float32", "float64"]))
    n, m = data.draw(st.integers(1, 200)), data.draw(st.integers(0, 30))
    h, spread = (10.0 ** data.draw(st.integers(-3, 3)) for _ in range(2))
    offset = h * 10.0 ** data.draw(st.integers(0, 5))
    x = (offset + spread * rng.standard_t(2, n)).astype(dtype)
    y = (offset + 1.5 * spread * rng.standard_t(2, m)).astype(dtype)
    w = 10.0 ** rng.uniform(-40, 0, n) * (rng.uniform(size=n) < 0.9) if data.draw(st.booleans()) else None
    if w is not None:
        w[0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_dimension_passes, "_PAIR_COST", data.draw(st.sampled_from([0, 1e9])))
        with only("line", *data.draw(st.sampled_from([(), ("line few",)]))):
            verify(reference.log_distribution(x, y, h, w), *both(Backend("numpy"), x, y, h, w))


def test_a_query_that_no_box_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of data may be none at all within its reach, on the CPU."""
    monkeypatch.setattr(one_dimension_passes, "_PAIR_COST", 0)
    rng = np.random.default_rng(0)
    x, y = ((1 + scale * 1e3 * rng.standard_t(2, size)).astype(np.float32) for scale, size in ((1.0, 2), (1.5, 1)))
    with only("line"):
        verify(reference.log_distribution(x, y, 1.0, None), *both(Backend("numpy"), x, y, 1.0, None))


@pytest.mark.usefixtures("expansions")
class TestProperties:
    @pytest.fixture
    def sample(self, backend: Backend) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(2)
        return rng.standard_normal(backend.size(2000, 300)), np.linspace(-9, 9, 400)

    def test_rises_from_nothing_to_one(self, backend: Backend, sample: Any) -> None:
        x, y = sample
        ends = np.array([-1e9, -20.0, 20.0, 1e9])
        F, log_F = both(backend, x, np.concatenate([y, ends]), H)
        assert (F[1:400] >= F[:399] * (1 - 2 * LINE["float64"].value)).all()
        assert (log_F[1:400] >= log_F[:399] - 2 * LINE["float64"].value).all()
        np.testing.assert_array_equal(F[400:], [0, 0, 1, 1])
        assert log_F[-4] == pytest.approx(-0.5 * ((1e9 + x.min()) / H) ** 2, rel=1e-12)
        assert -1e-300 < log_F[-2] <= 0
        assert log_F[-1] == 0

    def test_same_bits_on_every_run(self, backend: Backend, sample: Any) -> None:
        x, y = (a.astype("float32") for a in sample)
        w = np.random.default_rng(3).uniform(size=len(x))
        runs = [both(backend, x, y, H, w, deterministic=True) for _ in range(2)]
        np.testing.assert_array_equal(*runs)

    def test_data_at_themselves_and_forms_of_arguments(self, backend: Backend, sample: Any) -> None:
        x = sample[0]
        X = backend.asarray(x)
        want = backend.asnumpy(cukde.cdf(X, backend.asarray(x.copy()), H))
        for args in ((X, X, H), (X[:, None], X[:, None], [H]), (X, X[:, None], [[H * H]])):
            np.testing.assert_allclose(backend.asnumpy(cukde.cdf(*args)), want, rtol=1e-12)
        assert cukde.cdf(X, X[:0], H).shape == (0,)
        integers = backend.asnumpy(cukde.cdf(backend.asarray(np.arange(3)), backend.asarray([1]), 2.0))
        assert integers == pytest.approx([0.5])
        assert backend.asnumpy(cukde.cdf(X.astype("f2"), X.astype("f2"), H)).dtype == np.float32

    def test_bandwidths_of_any_size(self, backend: Backend, sample: Any) -> None:
        x, y = sample
        want = both(backend, x, y, H)
        for scale in (2.0**-60, 2.0**60):
            for got, expected in zip(both(backend, scale * x, scale * y, scale * H), want, strict=True):
                np.testing.assert_allclose(got, expected, rtol=1e-11)

    def test_not_a_number_comes_out_where_it_went_in(self, backend: Backend, sample: Any) -> None:
        x, y = sample[0][:50], np.array([0.1, np.nan, -np.inf, np.inf])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            F, log_F = both(backend, x, y, H, check_finite=False)
            np.testing.assert_array_equal(np.isnan([F, log_F]), [[False, True, False, False]] * 2)
            assert (F[2], log_F[2], F[3], log_F[3]) == (0, -np.inf, 1, 0)
            x[7] = np.nan
            assert np.isnan(both(backend, x, y[:1], H, check_finite=False)).all()


def test_ieee_takes_every_pair(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_dimension_plan, "plan", None)
    x = np.linspace(-1, 1, 50).astype(np.float32)
    with only("line"):
        verify(reference.log_distribution(x, x, H), *both(backend, x, x, H, precision="ieee"))


def test_rows_without_weight_do_not_count(backend: Backend) -> None:
    """However far to the left a query lies, and whatever their rows hold."""
    x, w = np.array([0.0, 3.0, -1e17]), np.array([1.0, 2.0, 0.0])
    y = np.array([-1e18, -5.0, 4.0])
    got = both(backend, x, y, 0.5, w)
    np.testing.assert_allclose(got, both(backend, x[:2], y, 0.5, w[:2]), rtol=1e-14)


def test_many_pairs_are_never_summed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of 1e10 pairs ends, and its result is that of a few of its queries alone."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(100_000), rng.standard_normal(100_000)
    monkeypatch.setattr(cdf_pairs, "sums", None)
    got = cukde.cdf(x, y, 0.05)
    want = np.exp(reference.log_distribution(x, y[:5], 0.05)[0])
    np.testing.assert_allclose(got[:5], want, rtol=1e-12, atol=0)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9, 1e-12])
def test_no_pair_of_points_is_off_by_more_than_the_bound(tolerance: float) -> None:
    plan = one_dimension_plan.plan(H, "cdf", tolerance)
    rho, powers = plan.unit / H, np.arange(plan.order)
    ends = np.concatenate([np.linspace(-1, 1, 21), [-0.999, 0.999]])  # alpha, and beta
    steps = ends[:, None] ** powers
    for o, table in enumerate(plan.translation):
        u = 2 * rho * (o - plan.reach) + rho * (ends[:, None] - ends)  # query by point
        assert (np.abs(steps @ (steps @ table.T).T - special.ndtr(u)) <= plan.error[o]).all()
        assert (special.ndtr(u) >= plan.least[o] * (1 - 1e-12)).all()
    assert special.ndtr(-plan.width * plan.reach / H) <= plan.beyond * (1 + 1e-12)


def test_mills_ratio() -> None:
    x = np.concatenate([np.linspace(0, 7, 3000), 10.0 ** np.linspace(-20, 150, 500)])
    got = np.array([one_dimension_cdf.half_erfcx(v) for v in x])
    np.testing.assert_allclose(got, 0.5 * special.erfcx(x), rtol=5 * 2.0**-52)


def test_masses_before_and_after_keep_their_digits() -> None:
    """Of boxes that hold nothing beside the others."""
    mass = np.repeat([1e-200, 1.0, 1e-17, 1e-200], 1000) * np.random.default_rng(0).uniform(size=4000)
    before, after = np.empty(4001), np.empty(4001)
    one_dimension_cdf.accumulate(mass, before, after)
    exact = [math.fsum(mass[:k]) for k in range(0, 4001, 250)]
    np.testing.assert_allclose(before[::250], exact, rtol=4 * 2.0**-52)
    np.testing.assert_allclose(after[::250], [math.fsum(mass[k:]) for k in range(0, 4001, 250)], rtol=4 * 2.0**-52)


@pytest.mark.parametrize("function", [cukde.cdf, cukde.log_cdf])
def test_arguments_are_checked(backend: Backend, function: Any) -> None:
    X = backend.asarray(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"X must have one column .*; got 2: call it for each column"):
        function(X, X, 1.0)


def test_costs() -> None:
    """Linear by the transform, and of all pairs in "ieee"; a logarithm costs two passes."""
    few, many = ({"n": n, "m": n, "dtype": "float64"} for n in (10**5, 10**6))
    once = perf.cost("cdf", CPU, **many)
    assert 0 < once.work("scalar") < 15 * perf.cost("cdf", CPU, **few).work("scalar")
    assert 1.5 * once.work("scalar") < perf.cost("log_cdf", CPU, **many).work("scalar") <= 2 * once.work("scalar")
    assert perf.cost("cdf", CPU, precision="ieee", **many).work("scalar") > 1e12
    assert perf.cost("cdf", H200, precision="ieee", **many).work("exponential_f64") == 3e12
    assert perf.predict("log_cdf", H200, precision="ieee", **many).seconds > 10
    assert perf.predict("log_cdf", H200, **many).seconds < 0.01
    with pytest.raises(ValueError, match="d must be 1 for a distribution function; got 2"):
        perf.cost("cdf", H200, n=10, m=10, d=2)


def test_dask_collections_are_refused() -> None:
    x = np.zeros(3)
    with pytest.raises(TypeError, match=r"Y must be an array in memory .*: write Y\.compute\(\)"):
        cukde.cdf(x, da.zeros(3), 1.0)
    with pytest.raises(TypeError, match=r"weights must be an array in memory"):
        cukde.log_cdf(x, x, 1.0, weights=da.ones(3))
