"""Cross-validation against fits without each row, and what it chooses."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import cukde
from cukde import BandwidthRangeWarning, bandwidth
from cukde.bandwidth import data, least_squares, scores as bandwidth_scores, search
from tests import reference
from tests.private import backend_of, bandwidth_backends as backends, named
from tests.tolerances import CROSS_VALIDATION

KINDS = [
    ("kde", "likelihood"),
    ("sd", "likelihood"),
    ("kde", "least_squares"),
    ("sd", "least_squares"),
    ("laplace", "least_squares"),
]
"""Methods and objectives."""

kinds = pytest.mark.parametrize(("method", "objective"), KINDS, ids=["-".join(kind) for kind in KINDS])
FIRST = [[0.0, 1.0], [0.5, -1.0], [1.0, 0.3], [2.5, 0.0]]


def _sample(n: int, d: int = 1, seed: int = 0) -> np.ndarray:
    """Rows of a skewed distribution, with another scale in each column."""
    return np.random.default_rng(seed).gamma(3.0, size=(n, d)) * 4.0 ** np.arange(d)


def _weights(n: int) -> np.ndarray:
    return 3 * np.random.default_rng(1).exponential(size=n)


def _two_modes(n: int, apart: float, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=n)
    X[::2] += apart
    return X


def _found(backend: Any, X: Any, *args: Any, weights: Any = None, **options: Any) -> search.CrossValidation:
    """The result on the host, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", BandwidthRangeWarning)
        found = bandwidth.cross_validate(backend.asarray(X), *args, weights=backend.asarray(weights), **options)
    return _on_host(backend, found)


def _on_host(backend: Any, found: search.CrossValidation) -> search.CrossValidation:
    best, score, *grid = found
    return search.CrossValidation(backend.asnumpy(best), score, *map(backend.asnumpy, grid))


def _scores(backend: Any, X: Any, method: str, h: Any, objective: str, **options: Any) -> np.ndarray:
    """The scores, wherever the best of them is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthRangeWarning)
        found = bandwidth.cross_validate(
            backend.asarray(X), method, h, objective, weights=backend.asarray(options.pop("weights", None)), **options
        )
    scores: np.ndarray = backend.asnumpy(found.scores)
    return scores


def _check(got: np.ndarray, X: np.ndarray, h: np.ndarray, method: str, objective: str, dtype: str, w: Any) -> None:
    """Scores against those of fits; least squares is a difference, judged beside the mean density."""
    want = np.array([reference.leave_one_out_score(X, one, method, objective, w) for one in h])
    size = np.ones(len(h))
    if objective == "least_squares":
        size = np.array([reference.kde(X, X, one).mean() for one in h])
    assert (abs(got - want) <= CROSS_VALIDATION[method, dtype].value * size).all(), abs(got - want) / size


# Scores


@kinds
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("d", [1, 2])
def test_scores_are_those_of_fits_without_each_row(
    backend: Any, d: int, weighted: bool, method: str, objective: str
) -> None:
    n = backend.size(60, 20)
    X = _sample(n, d)
    w = _weights(n) if weighted else None
    h = np.array([0.4, 1.5])
    _check(_scores(backend, X, method, h, objective, weights=w), X, h, method, objective, "float64", w)
    deviations = np.array([0.4, 1.5])[:, None] * X.std(axis=0)
    got = _scores(backend, X, method, deviations, objective, weights=w)
    _check(got, X, deviations, method, objective, "float64", w)


@kinds
@pytest.mark.parametrize("given", ["float32", "float64 as float32"])
def test_scores_in_single_precision(backend: Any, given: str, method: str, objective: str) -> None:
    n = backend.size(100, 20)
    X = (_sample(n, 2) + 100).astype(given[:7])
    precision = None if given == "float32" else "float32"
    h = np.array([[0.8, 0.8], [1.2, 1.2], [0.8, 3.0]])
    got = _scores(backend, X, method, h, objective, precision=precision)
    _check(got, X, h, method, objective, "float32", None)


PUBLIC = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}


@kinds
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_public_functions_without_a_row_give_the_score(weighted: bool, method: str, objective: Any) -> None:
    n, log = 200, objective == "likelihood"
    X, w = _sample(n, 3 if log else 1), _weights(n) if weighted else np.ones(n)
    h = 0.4 * X.std(axis=0)
    fits = [PUBLIC[method](np.delete(X, i, 0), X[i : i + 1], h, weights=np.delete(w, i), log=log)[0] for i in range(n)]
    want = np.average(fits, weights=w)
    if not log:
        step = h[0] / 4
        grid = np.arange(X.min() - 12 * h[0], X.max() + 12 * h[0], step)
        want = 2 * want - step * np.square(PUBLIC[method](X, grid, h, weights=w)).sum()
    got = bandwidth.cross_validate(X, method, h[None], objective, weights=w if weighted else None).score
    assert got == pytest.approx(want, abs=1e-9)


@kinds
def test_a_point_far_from_the_rest_has_a_score(backend: Any, method: str, objective: str) -> None:
    X = np.append(_sample(12)[:, 0], 1000.0)
    h = np.array([0.5, 1.0])
    got = _scores(backend, X, method, h, objective)
    want = np.array([reference.leave_one_out_score(X, one, method, objective) for one in h])
    np.testing.assert_allclose(got, want, rtol=1e-9)


@kinds
def test_two_rows_are_enough(backend: Any, method: str, objective: str) -> None:
    X, h = np.array([0.0, 1.0]), np.array([0.5, 2.0])
    got = _scores(backend, X, method, h, objective)
    np.testing.assert_allclose(got, [reference.leave_one_out_score(X, one, method, objective) for one in h], rtol=1e-9)


def test_without_a_row_the_others_move_too() -> None:
    """To leave out the own debiased point alone gives another score."""
    X, h = _sample(60)[:, 0], 0.5
    moved = cukde.debias(X, h)
    alone = np.mean([reference.log_kde(np.delete(moved, i), X[i : i + 1], h)[0] for i in range(len(X))])
    assert abs(bandwidth.cross_validate(X, "sd", [h]).score - alone) > 0.01


@kinds
def test_rows_of_no_weight_do_not_count(backend: Any, method: str, objective: str) -> None:
    n = backend.size(60, 20)
    X, w = _sample(n, 2), _weights(n)
    w[::3] = 0
    h = X.std(axis=0) * np.array([[0.3], [0.6]])
    got = _scores(backend, X, method, h, objective, weights=w)
    want = _scores(backend, X[w > 0], method, h, objective, weights=1e200 * w[w > 0])
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_one_row_may_have_nearly_all_the_weight(backend: Any) -> None:
    X, w = _sample(12)[:, 0], _weights(12)
    w[5] = 1e12
    h = np.array([0.5, 1.0])
    got = _scores(backend, X, "kde", h, "likelihood", weights=w)
    want = [reference.leave_one_out_score(X, one, "kde", "likelihood", w) for one in h]
    np.testing.assert_allclose(got, want, rtol=1e-9)


@kinds
def test_scores_ignore_an_offset_and_follow_the_unit(backend: Any, method: str, objective: str) -> None:
    X = np.round(_sample(backend.size(60, 20), 2) * 1024) / 1024
    h = X.std(axis=0) * np.array([[0.3], [0.6]])
    scores = _scores(backend, X, method, h, objective)
    np.testing.assert_allclose(_scores(backend, X + 2.0**20, method, h, objective), scores, rtol=1e-9)
    unit = np.array([1e-20, 1e15])
    scaled = _scores(backend, X * unit, method, h * unit, objective)
    want = scores - np.log(unit).sum() if objective == "likelihood" else scores / unit.prod()
    np.testing.assert_allclose(scaled, want, rtol=1e-9)


# Passes


class _Counting:
    """The passes of a backend, counted."""

    def __init__(self, passes: Any) -> None:
        self.bandwidths: list[int] = []
        self._passes = passes

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._passes, name)
        if not callable(function):
            return function

        def counted(X: Any, scales: Any, *others: Any) -> Any:
            self.bandwidths.append(len(scales))
            return function(X, scales, *others)

        return counted


quiet = pytest.mark.filterwarnings("ignore::cukde.BandwidthRangeWarning")


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> _Counting:
    counting = _Counting(backends.passes(named("cpu")))
    monkeypatch.setattr(backends, "passes", lambda backend: counting)
    return counting


@quiet
@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_proportional_bandwidths_share_a_pass(passes: _Counting, objective: Any) -> None:
    X, factors = _sample(40, 3), np.array([0.3, 0.7, 1.1])
    for h in (factors, factors[:, None] * X.std(axis=0)):
        bandwidth.cross_validate(X, "kde", h, objective)
        assert passes.bandwidths == [3]
        passes.bandwidths.clear()


def test_several_directions_take_a_pass_each(passes: _Counting) -> None:
    X = _sample(40, 2)
    first, second = np.array([1.0, 3.0]), np.array([0.7, 9.0])
    h = np.array([first, 0.7 * second, 0.3 * first, second, 1.7 * first])
    scores = bandwidth.cross_validate(X, "kde", h).scores
    assert passes.bandwidths == [3, 2]
    one_by_one = [bandwidth.cross_validate(X, "kde", one[None]).score for one in h]
    np.testing.assert_allclose(scores, one_by_one, rtol=1e-12)


def test_sums_of_many_bandwidths_are_cut(passes: _Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    X, h = _sample(40), np.linspace(0.3, 2, 7)
    whole = bandwidth.cross_validate(X, "kde", h).scores
    monkeypatch.setattr(bandwidth_scores, "_BLOCK", 8 * 40 * 3)
    np.testing.assert_array_equal(bandwidth.cross_validate(X, "kde", h).scores, whole)
    assert passes.bandwidths == [7, 3, 3, 1]


# What is chosen


@kinds
def test_normal_data_get_about_their_reference_rule(backend: Any, method: str, objective: str) -> None:
    X = np.random.default_rng(2).normal(size=(backend.size(400, 60), 2)) * [1.0, 50.0]
    found = _found(backend, X, method, None, objective)
    rule = getattr(bandwidth, {"kde": "silverman"}.get(method, method))(X)
    assert (found.bandwidth > 0.6 * rule).all()
    assert (found.bandwidth < 1.7 * rule).all()


def test_the_default_grid_is_about_the_rule(backend: Any) -> None:
    X, w = _sample(50, 3), _weights(50)
    found = _found(backend, X, weights=w)
    assert found.bandwidths.shape == (32, 3)
    factors = found.bandwidths / bandwidth.silverman(X, weights=w)
    np.testing.assert_allclose(factors, np.repeat(2 ** (np.arange(-24, 8) / 8)[:, None], 3, axis=1), rtol=1e-12)
    best = int(found.scores.argmax())
    np.testing.assert_array_equal(found.bandwidth, found.bandwidths[best])
    assert found.score == found.scores[best]


@pytest.mark.parametrize("way", ["down", "up"])
def test_the_default_grid_goes_on_while_an_end_is_the_best(way: str) -> None:
    X = _two_modes(100, 500.0) if way == "down" else np.append(_sample(300)[:, 0], 1e5)
    found = bandwidth.cross_validate(X)
    factors = found.bandwidths[:, 0] / bandwidth.silverman(X)
    assert len(factors) > 32
    assert factors[0] == pytest.approx(1 / 8) if way == "up" else factors[0] < 0.1
    np.testing.assert_allclose(factors[1:] / factors[:-1], 2 ** (1 / 8), rtol=1e-12)
    assert 0 < found.scores.argmax() < len(factors) - 1
    np.testing.assert_allclose(found.scores, bandwidth.cross_validate(X, "kde", found.bandwidths).scores, rtol=1e-12)


@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_ties_are_reported(objective: Any) -> None:
    X = np.repeat(_sample(30)[:, 0], 2)
    with pytest.warns(BandwidthRangeWarning, match=r"smallest of the grid.*np\.unique") as caught:
        found = bandwidth.cross_validate(X, "kde", None, objective)
    assert caught[0].filename == __file__
    assert len(found.scores) == 32 + 6 * 16
    values, counts = np.unique(X, axis=0, return_counts=True)
    assert bandwidth.cross_validate(values, "kde", None, objective, weights=counts).bandwidth > 0.1


@pytest.mark.parametrize(("h", "which"), [([0.01, 0.02, 0.03], "largest"), ([20, 30], "smallest")])
def test_the_end_of_given_bandwidths_is_reported(h: Any, which: str) -> None:
    with pytest.warns(BandwidthRangeWarning, match=f"is the {which} among those given: .*; give") as caught:
        bandwidth.cross_validate(_sample(50), "kde", h)
    assert caught[0].filename == __file__


def test_only_rows_that_share_values_are_blamed_for_it() -> None:
    """Of listed bandwidths the smallest may be the best of any data; half of the rows doubled bound the likelihood."""
    X = _sample(40)
    for data_of, blamed in ((X, False), (np.concatenate([X, X[:20]]), False), (np.repeat(X, 2, axis=0), True)):
        with pytest.warns(BandwidthRangeWarning, match="smallest among those given.*give smaller ones") as caught:
            bandwidth.cross_validate(data_of, "kde", [20, 30])
        assert ("rows share values" in str(caught[0].message)) == blamed
    with warnings.catch_warnings():
        warnings.simplefilter("error", BandwidthRangeWarning)
        assert bandwidth.cross_validate(np.concatenate([X, X[:20]])).bandwidth[0] > 1e-3


@pytest.mark.parametrize("h", [[0.1], [0.01, 1.0, 9.0], [[0.1, 5.0], [0.5, 3.0]]], ids=["one", "within", "directions"])
def test_what_is_no_end_is_not_reported(backend: Any, h: list[Any]) -> None:
    _found(backend, _sample(50, np.ndim(h)), "kde", h)


# One deviation a column


@kinds
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_gradients_are_central_differences(backend: Any, weighted: bool, method: Any, objective: Any) -> None:
    n = backend.size(60, 20)
    X, w = backend.asarray(_sample(n, 3)), backend.asarray(_weights(n) if weighted else None)
    module = backend_of(X)
    rows = data.rows(X, w, module)
    of = bandwidth_scores.LeaveOneOut(data.Question(rows, None, weighted, method, objective, "float64", module))
    h = np.array([1.0, 3.0, 20.0])
    score, gradient = of.with_gradient(h)
    assert score == pytest.approx(of.scores(h[None])[0], rel=1e-12)
    steps = 1e-3 * np.eye(3)
    ahead, behind = of.scores(h * np.exp(steps)), of.scores(h * np.exp(-steps))
    np.testing.assert_allclose(gradient, (ahead - behind) / 2e-3, atol=1e-5 * abs(gradient).max())
    same, _ = of.with_gradient(np.full(3, 3.0))  # of data that are not scaled
    assert same == pytest.approx(of.scores(np.full((1, 3), 3.0))[0], rel=1e-12)


def test_the_derivative_has_the_documented_coefficients() -> None:
    for method in ("kde", "laplace"):
        for d in (1, 2, 5):
            p0, p1, p2, r0, r1 = least_squares.coefficients(method, d)  # type: ignore[arg-type]
            q = np.linspace(0, 9, 7)
            P, R = np.poly1d([p2, p1, p0]), np.poly1d([r1, r0])
            s0, s1, s2, t0, t1 = least_squares.of_derivative(least_squares.coefficients(method, d))  # type: ignore[arg-type]
            np.testing.assert_allclose(s0 + s1 * q + s2 * q * q, P(q) / 2 - P.deriv()(q), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(t0 + t1 * q, R(q) - R.deriv()(q), rtol=1e-12, atol=1e-12)


def _uneven(n: int) -> np.ndarray:
    """A normal column, and one of two narrow modes: their best bandwidths differ by more than their deviations."""
    rng = np.random.default_rng(3)
    return np.column_stack([rng.normal(size=n), np.where(rng.random(n) < 0.5, -4, 4) + 0.3 * rng.normal(size=n)])


@kinds
def test_a_deviation_a_column_scores_better(backend: Any, method: str, objective: str) -> None:
    X = _uneven(backend.size(150, 30))
    # The sd of the emulation takes long: a few bandwidths to begin with.
    h = bandwidth.silverman(X) * np.array([[0.1], [0.3], [1.0]])
    found = _found(backend, X, method, h, objective, per_dimension=True)
    grid = found.bandwidths[found.scores.argmax()]
    assert found.score > found.scores.max() + 0.05 * (abs(found.scores.max()) if objective == "least_squares" else 1)
    assert found.bandwidth[1] / found.bandwidth[0] < 0.5 * grid[1] / grid[0]
    assert found.score == pytest.approx(_scores(backend, X, method, found.bandwidth[None], objective)[0], rel=1e-9)


@quiet
@kinds
def test_the_optimum_is_a_maximum(method: str, objective: Any) -> None:
    X = _uneven(100)
    found = bandwidth.cross_validate(X, method, None, objective, per_dimension=True)
    nearby = found.bandwidth * np.exp(0.02 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    assert (bandwidth.cross_validate(X, method, nearby, objective).scores < found.score).all()


@kinds
def test_the_optimum_follows_the_units(method: str, objective: Any) -> None:
    X, units = _uneven(60), np.array([1e-9, 1e6])
    one, other = (bandwidth.cross_validate(Z, method, None, objective, per_dimension=True) for Z in (X, X * units))
    np.testing.assert_allclose(other.bandwidth / units, one.bandwidth, rtol=1e-3)


def test_a_column_of_ties_runs_to_the_side() -> None:
    X = _sample(40, 2)
    X[:, 1] = np.arange(40) % 2
    with pytest.warns(BandwidthRangeWarning, match=r"a column's deviation is the smallest .* 256 times") as caught:
        found = bandwidth.cross_validate(X, "kde", None, per_dimension=True)
    assert caught[0].filename == __file__
    start = found.bandwidths[found.scores.argmax()]
    assert found.bandwidth[1] == pytest.approx(start[1] / 256, rel=0.01)
    assert found.bandwidth[0] > 0.1 * start[0]


def test_a_score_that_overflows_is_passed_by(monkeypatch: pytest.MonkeyPatch) -> None:
    X = _uneven(60)
    good = bandwidth_scores.LeaveOneOut.with_gradient
    calls = []

    def sometimes(self: Any, h: np.ndarray) -> Any:
        calls.append(h)
        return (math.nan, np.full(2, math.nan)) if len(calls) == 2 else good(self, h)

    monkeypatch.setattr(bandwidth_scores.LeaveOneOut, "with_gradient", sometimes)
    found = bandwidth.cross_validate(X, "kde", None, per_dimension=True)
    assert len(calls) > 3
    assert found.score > found.scores.max()


# Forms and errors


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_results_are_float64_where_the_data_are(backend: Any, dtype: str) -> None:
    X = np.round(_sample(30, 2) * 4).astype(dtype)
    for h in ([0.5, 4.0, 90.0], backend.asarray(np.array([0.5, 4.0, 90.0]))):
        found = _found(backend, X, "kde", h)
        assert isinstance(found, search.CrossValidation)
        assert (found.bandwidth.dtype, found.bandwidths.dtype, found.scores.dtype) == (np.float64,) * 3
        assert (found.bandwidth.shape, found.bandwidths.shape, found.scores.shape) == ((2,), (3, 2), (3,))
        assert type(found.score) is float
        np.testing.assert_array_equal(found.bandwidths, np.repeat([[0.5], [4.0], [90.0]], 2, axis=1))
    want = reference.leave_one_out_score(X, 4.0, "kde", "likelihood")
    assert found.scores[1] == pytest.approx(want, abs=CROSS_VALIDATION["kde", "float32"].value)


def test_a_constant_column_may_have_a_given_bandwidth(backend: Any) -> None:
    X = np.column_stack([_sample(30), np.full(30, 0.1)])
    for method, objective in KINDS:
        got = _scores(backend, X, method, [0.5, 2.0], objective)
        assert np.isfinite(got).all()


ERRORS: dict[str, tuple[type[Exception], str, tuple[Any, ...], dict[str, Any]]] = {
    "method": (ValueError, r"^method\b", (FIRST, "sc"), {}),
    "objective": (ValueError, r"^objective\b", (FIRST, "kde", None, "risk"), {}),
    "laplace": (ValueError, 'write objective="least_squares"', (FIRST, "laplace"), {}),
    "per_dimension": (ValueError, "per_dimension must be True or False", (FIRST,), {"per_dimension": "yes"}),
    "precision": (ValueError, r"^precision\b", (FIRST,), {"precision": "half"}),
    "one row": (ValueError, r"^X\b.*2", ([[1.0, 2.0]], "kde", [1.0]), {}),
    "one weight": (ValueError, r"^weights\b", (FIRST,), {"weights": [1, 0, 0, 0]}),
    "few weights": (ValueError, r"^weights\b", (FIRST,), {"weights": [1, 0]}),
    "negative weights": (ValueError, r"^weights\b", (FIRST,), {"weights": [1, -1, 1, 1]}),
    "NaN": (ValueError, r"^X\b", ([[math.nan], [1.0]], "kde", [1.0]), {}),
    "text": (TypeError, r"^X\b", (["a", "b"],), {}),
    "constant": (ValueError, r"^X\b.*1", ([[0, 1], [1, 1]],), {}),
    "constant, a deviation each": (
        ValueError,
        r"^X\b",
        ([[0, 1], [1, 1]], "kde", [1.0]),
        {"per_dimension": True},
    ),
    "a word": (ValueError, "bandwidths must be numbers; got 'scott'", (FIRST, "kde", "scott"), {}),
    "words": (TypeError, "bandwidths must be real numbers", (FIRST, "kde", ["scott"]), {}),
    "ragged": (ValueError, "bandwidths must be a rectangular array", (FIRST, "kde", [[1.0], [1.0, 2.0]]), {}),
    "none": (ValueError, "bandwidths must be at least one", (FIRST, "kde", []), {}),
    "a number": (ValueError, r"got the number 1.0: write \[h\]", (FIRST, "kde", 1.0), {}),
    "columns": (ValueError, r"or \(B, 2\), a deviation a column; got shape \(1, 3\)", (FIRST, "kde", [[1, 2, 3]]), {}),
    "covariances": (ValueError, "bandwidths must have shape", (FIRST, "kde", [np.eye(2)]), {}),
    "infinite": (ValueError, "bandwidths must be finite", (FIRST, "kde", [math.inf]), {}),
    "zero": (ValueError, "bandwidths must be positive; the smallest is 0", (FIRST, "kde", [1.0, 0.0]), {}),
    "far apart": (ValueError, r"within a factor of 1e\+12", (FIRST, "kde", [1e-9, 1e4]), {}),
    "small": (ValueError, r"X must span less than 1e\+150", (FIRST, "kde", [1e-160]), {}),
    "endless": (ValueError, r"X must span less than 1e\+150", ([[-1.5e308], [1.5e308]], "kde", [1.0]), {}),
    "small in float32": (
        ValueError,
        r"^X\b.*1.*18",
        (FIRST, "kde", [1e-19]),
        {"precision": "float32"},
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    error, message, args, options = ERRORS[case]
    with pytest.raises(error, match=message):
        bandwidth.cross_validate(*args, **options)


def test_densities_beyond_range_are_an_error() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    for unit in (1e-120, 1e120):
        with pytest.raises(ValueError, match=r"X has densities beyond the range of float64.*likelihood"):
            bandwidth.cross_validate(X * unit, "kde", None, "least_squares")
        h = bandwidth.cross_validate(X * unit).bandwidth
        np.testing.assert_allclose(h / unit, bandwidth.cross_validate(X).bandwidth, rtol=1e-9)


# Heavy weights


def _exact_scores(X: np.ndarray, h: float, w: np.ndarray) -> tuple[float, float, float]:
    """Least squares, the size of its terms, and the likelihood, in extended precision where there is one."""
    X, width = X.astype(np.longdouble), np.longdouble(h)
    weights = w / w.astype(np.longdouble).sum()
    left = np.array([np.delete(weights, j).sum() for j in range(len(w))])
    squares = ((X[:, None] - X) ** 2).sum(axis=2)

    def kernels(variance: Any) -> Any:
        return np.exp(-squares / (2 * variance)) / (2 * np.longdouble(np.pi) * variance) ** (X.shape[1] / 2)

    square = weights @ kernels(2 * width**2) @ weights
    of_others = kernels(width**2)
    np.fill_diagonal(of_others, 0)
    density = of_others @ weights / left
    mean = weights @ density
    return float(2 * mean - square), float(2 * mean + square), float(weights @ np.log(density))


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 999), st.integers(1, 3), st.floats(0, 15), st.sampled_from(["pairs", "line", "bounds"]))
def test_one_weight_may_be_any_multiple_of_the_others(
    monkeypatch: pytest.MonkeyPatch, seed: int, d: int, log_ratio: float, way: str
) -> None:
    monkeypatch.setattr("cukde.bandwidth.cpu.passes.LEAST_ROWS_OF_LINE", 2 if way == "line" else 4096)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    X, w, heavy = rng.normal(size=(n, d)), rng.uniform(0.5, 1, n), seed % n
    w[heavy] = 10**log_ratio * np.delete(w, heavy).sum()
    options: Any = {"weights": w, "bounds": [(-20, None)] * d if way == "bounds" else None}
    least_squares, size, likelihood = _exact_scores(X, 0.7, w)
    tolerance = 1e-10 if way == "bounds" else 1e-12  # the documented ones
    got = bandwidth.cross_validate(X, "kde", [0.7], "least_squares", **options).score
    assert abs(got - least_squares) <= tolerance * size
    got = bandwidth.cross_validate(X, "kde", [0.7], **options).score
    assert abs(got - likelihood) <= tolerance * (1 + abs(likelihood))
