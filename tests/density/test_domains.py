"""Densities on domains with walls and periods, against sums over all images and known integrals.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
from cukde.core.plan import only
from cukde.density.arguments import prepare
from cukde.density.domains import images as domains_images
from tests import reference, tolerances
from tests.conftest import Backend

Bounds = Sequence[tuple[float | None, float | None] | None] | None
Periods = Sequence[float | None] | None

# Name: bounds, periods, bandwidth, cells that the oracle takes.
DOMAINS: dict[str, tuple[Bounds, Periods, Any, int]] = {
    "above": ([(0.0, None)], None, 0.3, 1),
    "below": ([(None, 1.0)], None, 0.3, 1),
    "between": ([(0.0, 1.0)], None, 0.1, 12),
    "between-wide": ([(0.0, 1.0)], None, 2.0, 30),
    "period": (None, [1.0], 0.15, 12),
    "period-wide": (None, [1.0], 3.0, 40),
    "two-walls-and-free": ([(0.0, 1.0), None], None, 0.2, 12),
    "three-kinds": ([(None, 1.0), None, None], [None, 1.5, None], [0.2, 0.4, 0.3], 12),
    "corner": ([(0.0, None)] * 3, None, 0.4, 1),
    "five": ([(-0.5, 1.0), None, (0.0, None), None, (0.0, 2.0)], [None, 1.1, None, None, None], 0.45, 12),
}
EMULATED = ("between", "three-kinds")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests the domains that each backend can afford."""
    if "case" in metafunc.fixturenames:
        from tests.conftest import BACKENDS

        metafunc.parametrize(
            ("backend", "dtype", "case"),
            [
                pytest.param(b.values[0], dtype, case, id=f"{b.id}-{dtype}-{case}", marks=b.marks)
                for b in BACKENDS
                for dtype in ("float32", "float64")
                for case in (EMULATED if b.id == "emulated" else DOMAINS)
            ],
            indirect=["backend"],
        )


def sample(d: int, n: int, m: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data and queries in the unit cube, the first of each in its corners, and weights of which some are zero."""
    rng = np.random.default_rng([d, n])
    X, Y, w = rng.random((n, d)), rng.random((m, d)), rng.random(n)
    X[0], X[1], Y[0], Y[1] = 0, 1, 0, 1
    w[3::7] = 0
    return X.astype(dtype), Y.astype(dtype), w


def verify(
    backend: Backend, dtype: str, X: np.ndarray, Y: np.ndarray, h: Any, w: Any, want: reference.OfDomain, **domain: Any
) -> None:
    """Check every function of the family at the queries."""
    allowed = tolerances.log_error(backend.device, dtype, want.exponent)
    options = {"weights": backend.asarray(w)} | domain
    x, y = backend.asarray(X), backend.asarray(Y)
    log_p = backend.asnumpy(cukde.kde(x, y, h, log=True, **options))
    assert log_p.dtype == np.dtype(dtype)
    tolerances.check_log(log_p, want.log, allowed)
    tolerances.check_density(backend.asnumpy(cukde.kde(x, y, h, **options)), want.log, allowed)
    with_score, gradient = map(backend.asnumpy, cukde.density_and_score(x, y, h, **options))
    tolerances.check_log(with_score, want.log, allowed)
    reach = 3 + np.sqrt(2 * want.exponent)
    for s in (gradient, backend.asnumpy(cukde.score(x, y, h, **options))):
        error = np.linalg.norm((s - want.score) * h, axis=1)
        tolerances.check_score(error, allowed + np.finfo(dtype).eps * abs(want.score * h).max(axis=1), reach)
    laplace = backend.asnumpy(cukde.laplace_kde(x, y, h, **options))
    tolerances.check_scaled(laplace, want.log, want.laplace, want.size, allowed, "laplace")
    problem, _ = prepare(x, y, h, **options)
    sums = problem.sums("laplace")  # which has the total beside
    log_total = backend.asnumpy(sums.reference + backend.xp.log(sums.total)) + problem.log_constant
    tolerances.check_log(log_total, want.log, allowed, "log total")


def test_estimates_match_sums_over_all_images(backend: Backend, dtype: str, case: str) -> None:
    bounds, periods, h, reach = DOMAINS[case]
    d = len(bounds or periods or ())
    X, Y, w = sample(d, backend.size(60, 40), backend.size(40, 20), dtype)
    want = reference.in_domain(X, Y, h, bounds, periods, w, reach)
    verify(backend, dtype, X, Y, h, w, want, bounds=bounds, periods=periods)


def test_moved_points_and_their_density_match_the_oracle(backend: Backend, dtype: str, case: str) -> None:
    """By the domain's score, of a wide bandwidth too; where a step is long, moved points are folded back."""
    bounds, periods, h, reach = DOMAINS[case]
    d = len(bounds or periods or ())
    X, Y, _ = sample(d, backend.size(60, 30), 20, dtype)
    x, y, options = backend.asarray(X), backend.asarray(Y), {"bounds": bounds, "periods": periods}
    for narrower, stretch in ((None, 1), (np.asarray(h) / 3, 9)):  # a step is so many times as long
        score = reference.in_domain(X, X, h if narrower is None else narrower, bounds, periods, reach=reach).score
        moved = X + 0.5 * np.asarray(h) ** 2 * score
        for k in range(d):
            moved[:, k] = reference.folded(moved[:, k], bounds and bounds[k], periods and periods[k])
        got = backend.asnumpy(cukde.debias(x, h, score_bandwidth=narrower, **options))
        assert got.dtype == np.dtype(dtype)
        allowed = stretch * tolerances.SD_DENSITY[dtype].value
        if backend.device == "gpu" and dtype == "float32":
            width = np.asarray(h if narrower is None else narrower)
            spread = reference.size_in_bandwidths(X - X.mean(axis=0), width)
            allowed += 0.5 * float(np.max(h / width)) * tolerances.MEAN_SHIFT.value * spread
        difference = abs(got - moved)
        if periods is not None:
            around = np.array([math.inf if t is None else t for t in periods])
            difference = np.minimum(difference, abs(around - difference))
        assert (difference <= allowed * np.asarray(h)).all()
        cukde.kde(got, got, h, **options)  # they lie in the domain
        want = reference.in_domain(moved, Y, h, bounds, periods, reach=reach)
        density = backend.asnumpy(cukde.sd_kde(x, y, h, score_bandwidth=narrower, log=True, **options))
        tolerances.check_log(density, want.log, np.full(len(Y), 10 * allowed))


@pytest.mark.parametrize("form", ["diagonal", "free columns", "periods", "a period and a free column"])
def test_covariances_match_their_images(backend: Backend, form: str) -> None:
    X, Y, w = sample(3, backend.size(30, 15), 10, "float64")
    H = np.diag([0.04, 0.09, 0.16])
    bounds: Bounds = [(0.0, 1.0), None, None]
    periods: Periods = [None, None, None]
    if form != "diagonal":
        H[1, 2] = H[2, 1] = 0.1
    if form == "periods":
        periods = [None, 1.0, 1.5]
    if form == "a period and a free column":
        periods = [None, 1.0, None]
        Y[::3, 2] += 20  # far along a column that is linked with a periodic one
    parts = [
        (X * [sign, 1, 1] + [a, b, c])
        for sign, a in [(s, 2.0 * i) for s in (1, -1) for i in range(-2, 3)]
        for b in ([0.0] if periods[1] is None else np.arange(-6.0, 7) if form == "periods" else np.arange(-20.0, 21))
        for c in ([0.0] if periods[2] is None else 1.5 * np.arange(-3, 4))
    ]
    images, weights = np.concatenate(parts), np.tile(w, len(parts))
    want = reference.log_kde(images, Y, H, weights) + math.log(len(parts))
    given = backend.asarray(X), backend.asarray(Y), H
    options = {"weights": backend.asarray(w), "bounds": bounds, "periods": periods}
    got = backend.asnumpy(cukde.kde(*given, log=True, **options))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12 * np.maximum(1, abs(want)).max())
    score = backend.asnumpy(cukde.score(*given, **options))
    np.testing.assert_allclose(score, reference.score(images, Y, H, weights), rtol=1e-9, atol=1e-9)


def _nodes(low: float, high: float, number: int, periodic: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of a quadrature: Gauss and Legendre's, or equal steps around a period."""
    if periodic:
        return low + (high - low) * np.arange(number) / number, np.full(number, (high - low) / number)
    t, w = np.polynomial.legendre.leggauss(number)
    return low + (high - low) * (t + 1) / 2, w * (high - low) / 2


@pytest.mark.parametrize("estimate", [cukde.kde, cukde.sd_kde, cukde.laplace_kde])
@pytest.mark.parametrize(
    "name", ["above", "between", "between-wide", "period", "period-wide", "two", "two-mixed", "three"]
)
def test_integral_over_the_domain_is_1(estimate: Any, name: str) -> None:
    more: dict[str, tuple[Bounds, Periods, Any, int]] = {
        "two": ([(0.0, 1.0), (0.0, None)], None, 0.25, 0),
        "two-mixed": ([(None, 1.0), None], [None, 1.0], [0.25, 0.2], 0),
        "three": ([(0.0, 1.0), None, (0.0, 1.0)], [None, 1.0, None], 0.35, 0),
    }
    bounds, periods, h, _ = (more | DOMAINS)[name]
    d = len(bounds or periods or ())
    X, _, w = sample(d, 12, 2, "float64")
    widths = np.broadcast_to(h, (d,))
    axes = []
    for k in range(d):
        period = periods and periods[k]
        low, high = (bounds and bounds[k]) or (None, None)
        if period is not None:
            axes.append(_nodes(0, period, 30, periodic=True))
        else:
            low, high = -9 * widths[k] if low is None else low, 1 + 9 * widths[k] if high is None else high
            axes.append(_nodes(low, high, {1: 80, 2: 48, 3: 18}[d]))
    grid = np.stack(np.meshgrid(*(places for places, _ in axes), indexing="ij"), axis=-1).reshape(-1, d)
    mass = np.prod(np.stack(np.meshgrid(*(weights for _, weights in axes), indexing="ij"), axis=-1), axis=-1).ravel()
    p = estimate(X, grid, h, weights=w, bounds=bounds, periods=periods)
    assert abs(p @ mass - 1) < 1e-6


FEW = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FEW
@given(
    d=st.integers(1, 5),
    dtype=st.sampled_from(["float32", "float64"]),
    kinds=st.lists(st.sampled_from(["free", "above", "below", "between", "period"]), min_size=5, max_size=5),
    h=st.sampled_from([0.03, 0.3, 3.0]),
    offset=st.sampled_from([0.0, 1e4]),
    seed=st.integers(0, 99),
)
def test_any_domain_matches_the_oracle(
    d: int, dtype: str, kinds: list[str], h: float, offset: float, seed: int
) -> None:
    """Far from zero too: a mirror image is as exact as its point."""
    rng = np.random.default_rng(seed)
    X, Y = (offset + rng.random((rows, d)) for rows in (25, 10))
    X, Y = X.astype(dtype), Y.astype(dtype)
    ends = {"above": (offset - 0.25, None), "below": (None, offset + 1.25), "between": (offset - 0.25, offset + 1.25)}
    bounds = [ends.get(kind) for kind in kinds[:d]]
    periods = [2.0 if kind == "period" else None for kind in kinds[:d]]
    want = reference.in_domain(X, Y, h, bounds, periods, reach=20)
    verify(Backend("numpy"), dtype, X, Y, h, None, want, bounds=bounds, periods=periods)


def test_data_at_themselves_are_as_at_other_queries(backend: Backend) -> None:
    """Passes that take each pair once serve the data, and others their images."""
    rng = np.random.default_rng(24)
    n = backend.size(2500, 300)
    X = backend.asarray(np.stack([rng.uniform(0, 24, n), rng.normal(size=n)], axis=1))
    options = {"h": [0.3, 0.1], "periods": [24, None]}
    assert backend.asnumpy(cukde.kde(X, X, **options)) == pytest.approx(
        backend.asnumpy(cukde.kde(X, X.copy(), **options)), rel=1e-12
    )


def test_queries_outside_have_no_density(backend: Backend) -> None:
    X, bounds = backend.asarray(np.array([[0.2, 0.5], [0.9, 3.0]])), [(0, 1), None]
    Y = backend.asarray(np.array([[-0.1, 0.5], [0.5, 9.0], [1.1, 0.5], [1.0, -70.0]]))
    outside = np.array([True, False, True, False])
    for f in (cukde.kde, cukde.sd_kde, cukde.laplace_kde):
        p, log_p = (backend.asnumpy(f(X, Y, 0.3, bounds=bounds, log=log)) for log in (False, True))
        assert (p[outside] == 0).all()
        assert (log_p[outside] == -np.inf).all()
        assert not np.isinf(log_p[~outside]).any()
    log_p, s = map(backend.asnumpy, cukde.density_and_score(X, Y, 0.3, bounds=bounds))
    assert (log_p == -np.inf).tolist() == outside.tolist()
    assert np.isnan(s).all(axis=1).tolist() == np.isnan(s).any(axis=1).tolist() == outside.tolist()
    assert backend.asnumpy(cukde.kde(X, Y[:0], 0.3, bounds=bounds)).shape == (0,)


def test_far_queries_have_the_images_that_matter(backend: Backend) -> None:
    """At a wall an image adds as much as its point, however far both are."""
    X = np.array([[40.0, 0.5], [60.0, 0.5]])
    Y = np.array([[0.0, 0.5], [0.0, 1e3], [1e-3, 0.5], [45.0, -800.0]])
    options: dict[str, Any] = {"bounds": [(0, None), None], "periods": [None, None]}
    want = reference.in_domain(X, Y, 0.5, options["bounds"])
    got = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), 0.5, log=True, **options))
    np.testing.assert_allclose(got, want.log, rtol=1e-13)
    # Beside a linked or free column that is far, no more periods count.
    got = backend.asnumpy(cukde.kde(backend.asarray(X), backend.asarray(Y), 0.5, log=True, periods=[None, 1.0]))
    np.testing.assert_allclose(got, reference.in_domain(X, Y, 0.5, None, [None, 1.0], reach=1200).log, rtol=1e-13)


def test_local_factors_have_images(backend: Backend) -> None:
    X, Y, w = sample(2, backend.size(50, 20), 20, "float64")
    factors = np.random.default_rng(0).uniform(0.4, 2.0, len(X))
    parts = [(X * [s, 1] + [2.0 * i, j]) for s in (1, -1) for i in range(-6, 7) for j in range(-6, 7)]
    everywhere = np.concatenate(parts)
    want, _ = reference.log_local_kde(everywhere, Y, 0.3, np.tile(factors, len(parts)), np.tile(w, len(parts)))
    got = cukde.kde(
        *map(backend.asarray, (X, Y)),
        0.3,
        weights=backend.asarray(w),
        local_factors=backend.asarray(factors),
        bounds=[(0, 1), None],
        periods=[None, 1],
    )
    np.testing.assert_allclose(backend.asnumpy(got), np.exp(want + math.log(len(parts))), rtol=1e-11)


def test_products_run_on_the_backend(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds, periods, _, _ = DOMAINS["five"]
    X, Y, w = sample(5, backend.size(300, 30), backend.size(100, 20), "float32")
    monkeypatch.setattr(domains_images, "_pass", lambda *_: pytest.fail("made images"))
    h = np.array([0.2, 0.4, 0.3, 0.2, 0.7])
    want = reference.in_domain(X, Y, h, bounds, periods, w)
    with only("products"):
        verify(backend, "float32", X, Y, h, w, want, bounds=bounds, periods=periods)


def test_images_come_in_chunks(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = sample(2, 40, 10, "float64")
    passes = []
    one_pass = domains_images._pass
    monkeypatch.setattr(domains_images, "_pass", lambda *args: passes.append(len(args[2])) or one_pass(*args))
    monkeypatch.setattr(domains_images, "_ROWS", 64)
    x, y = backend.asarray(X), backend.asarray(Y)
    got = backend.asnumpy(cukde.kde(x, y, 0.2, bounds=[(0, 1), (0, None)], log=True))
    want = reference.in_domain(X, Y, 0.2, [(0, 1), (0, None)])
    np.testing.assert_allclose(got, want.log, rtol=0, atol=1e-12)
    assert len(passes) > 2


def test_ten_bounded_columns_are_no_more_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """3^10 images of each point, or far more, are never made."""
    X, Y, w = sample(10, 40, 5, "float32")
    monkeypatch.setattr(domains_images, "_pass", lambda *_: pytest.fail("made images of all points"))
    for h in (0.2, 0.3, 5.0):
        want = reference.in_domain(X, Y, h, [(0, 1)] * 10, None, w, 40)
        log_p, s = cukde.density_and_score(X, Y, h, weights=w, bounds=[(0, 1)] * 10)
        np.testing.assert_allclose(log_p, want.log, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(s * h, want.score * h, rtol=1e-5, atol=1e-5)


def test_images_far_from_the_queries_are_left_out() -> None:
    """Of a narrow kernel only points near the walls, and the queries, have images."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((20_000, 2)), rng.random((50, 2))
    made = []
    with pytest.MonkeyPatch.context() as patch:
        one_pass = domains_images._pass
        patch.setattr(
            domains_images,
            "_pass",
            lambda p, o, parts, values: made.extend(len(i) for i, _ in parts) or one_pass(p, o, parts, values),
        )
        cukde.kde(X, Y, 0.01, bounds=[(0, 1), (0, 1)])
        assert 0 < sum(made) < 0.6 * len(X)
        made.clear()
        cukde.kde(X, 0.4 + 0.2 * Y, 0.01, bounds=[(0, 1), (0, 1)])
        assert not made


def test_the_line_takes_the_fast_transform_with_walls(backend: Backend) -> None:
    n = backend.size(1500, 100)
    X, Y, _ = sample(1, n, n, "float64")
    given = backend.asarray(X[:, 0]), backend.asarray(Y[:, 0])
    p = backend.asnumpy(cukde.kde(*given, 0.02, bounds=[(0, 1)]))
    np.testing.assert_allclose(p[:40], np.exp(reference.in_domain(X, Y[:40], 0.02, [(0, 1)]).log), rtol=1e-12)


def test_bounds_hold_points_that_their_dtype_rounds() -> None:
    """A bound of 0.1 is no number of float32: points on it count as within, and moved points lie within."""
    X = np.array([0.1, 0.15, 0.7], np.float32)
    moved = cukde.debias(X, 0.3, score_bandwidth=0.05, bounds=[(0.1, 0.7)])
    assert cukde.kde(moved, X, 0.3, bounds=[(0.1, 0.7)]).min() > 0


def test_unchecked_points_outside_are_at_the_end() -> None:
    X, Y = np.array([-0.5, 0.5, 0.7]), np.array([0.1, 0.9, np.inf])
    got = cukde.kde(X, Y, 0.2, bounds=[(0, 1)], check_finite=False)
    np.testing.assert_allclose(got[:2], cukde.kde(np.maximum(X, 0), Y[:2], 0.2, bounds=[(0, 1)]), rtol=1e-14)
    assert got[2] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": (0, 1)}, r"bounds must hold None or a pair \(low, high\) for each column; got 0 for column 0"),
        ({"bounds": [(0, 1)]}, "bounds must have 2 entries, None or .* for each column of X; got 1"),
        ({"bounds": [(0, 1, 2), None]}, "got .0, 1, 2. for column 0: write"),
        ({"bounds": [None, (1, 1)]}, "low below high; got .1, 1. for column 1"),
        ({"bounds": [None, (np.nan, 1)]}, "a bound of column 1 must be a number, or None for an open end; got nan"),
        ({"bounds": [None, (np.inf, None)]}, "a bound of column 1 must be finite"),
        ({"periods": [1.0, 0.0]}, r"periods\[1\] must be positive and finite; got 0.0"),
        ({"periods": [1.0]}, "periods must have 2 entries"),
        ({"bounds": [(0, 1), (0, 1)], "periods": [None, 1]}, "bounds or a period, not both; columns that have both: 1"),
        ({"bounds": [(0.5, 1), (0, 1)]}, r"X must lie within its bounds; 3 of 6 rows have column 0 outside \[0.5, 1\]"),
        ({"bounds": [(0, 9), None], "h": np.array([[1, 0.5], [0.5, 1]])}, "h must not correlate .*with bounds: 0"),
        (
            {"periods": [1e-9, None], "h": np.array([[1, 0.5], [0.5, 1]])},
            "h must be smaller beside the bounds and periods",
        ),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    X = np.stack([np.linspace(0, 1, 6), np.linspace(0, 1, 6)], axis=1)
    h = options.pop("h", 0.5) if "h" in options else 0.5
    options = {k: v for k, v in options.items() if k != "h"}
    with pytest.raises(ValueError, match=message):
        cukde.kde(X, X, h, **options)


def test_what_is_no_sequence_is_refused() -> None:
    X = np.zeros((3, 2))
    for options in ({"bounds": "ab"}, {"bounds": {0, 1}}, {"bounds": 1.0}, {"periods": 2}, {"periods": iter([1, 2])}):
        with pytest.raises(TypeError, match=r"must be a sequence of 2 entries, .* for each column of X; got"):
            cukde.kde(X, X, 1.0, **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a bound of column 0 must be a number; got '0'"):
        cukde.kde(X, X, 1.0, bounds=[("0", 1), None])
    with pytest.raises(ValueError, match="score_bandwidth must not correlate"):
        cukde.sd_kde(X, X, 1.0, score_bandwidth=np.array([[1, 0.5], [0.5, 1]]), bounds=[(0, 1), None])


def test_all_forms_of_bounds_are_one(backend: Backend) -> None:
    X, Y, _ = sample(2, 20, 10, "float64")
    x, y = backend.asarray(X), backend.asarray(Y)
    forms: tuple[Any, ...] = (
        [(0, 1), (0, None)],
        (np.array([0.0, 1.0]), [0, np.inf]),
        np.array([[0.0, 1.0], [0.0, np.inf]]),
        backend.asarray(np.array([[0.0, 1.0], [0.0, np.inf]])),
    )
    results = [backend.asnumpy(cukde.kde(x, y, 0.3, bounds=bounds)) for bounds in forms]
    for one, other in itertools.pairwise(results):
        np.testing.assert_array_equal(one, other)


def test_a_bandwidth_near_the_largest_number(backend: Backend) -> None:
    """The periodic column is uniform, and the other normal."""
    X = backend.asarray(np.random.default_rng(3).normal(size=(7, 2)))
    h = 1e308
    want = -math.log(3.0) - 0.5 * math.log(2 * math.pi) - math.log(h)
    found = backend.asnumpy(cukde.kde(X, X[:2], h, periods=[3.0, None], log=True))
    np.testing.assert_allclose(found, want, rtol=1e-12)
    log, score = cukde.density_and_score(X, X[:2], h, periods=[3.0, None])
    np.testing.assert_allclose(backend.asnumpy(log), want, rtol=1e-12)
    np.testing.assert_array_equal(abs(backend.asnumpy(score)), 0.0)


def test_factors_that_were_not_checked(backend: Backend) -> None:
    X = backend.asarray(np.random.default_rng(3).normal(size=(7, 2)))
    factors = backend.asarray(np.ones(7))
    options: dict[str, Any] = {"periods": [3.0, None], "local_factors": factors, "check_finite": False}
    for factor in (-1.0, 1e-300):
        factors[1] = factor
        assert cukde.kde(X, X[:2], 0.7, **options).shape == (2,)
    for factor in (np.inf, 1e300):
        factors[1] = factor
        with pytest.raises(ValueError, match="h must be smaller"):
            cukde.kde(X, X[:2], 0.7, **options)
