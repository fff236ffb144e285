"""The improved Sheather-Jones rule against sums over all pairs, the authors' program and KDEpy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.optimize import brentq

import cukde
from cukde import BandwidthRangeWarning, bandwidth, perf
from cukde.bandwidth import improved_sheather_jones
from tests import reference
from tests.perf.processors import H200

# What binning leaves, at 16 steps a bandwidth or more; measured 5e-6.
PAIRS = 1e-5

# The same where a dozen rows or so are all that is near, so that binning does not average out; measured 2e-4.
FEW_PAIRS = 5e-4

# Rounding of the functionals, and where a grid's steps fall among the points.
SAME = 1e-6


def _samples(n: int = 500) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    z = rng.standard_normal(n)
    half = np.arange(n) % 2
    return {
        "normal": z,
        "skewed": rng.exponential(size=n),
        "uniform": rng.random(n),
        "bimodal": z + 6 * half,
        "far clusters": z + 1e9 * half,
        "two scales": z * np.where(half, 1.0, 0.01),
        "heavy tails": rng.standard_cauchy(n),
        "very heavy tails": np.exp(3 * z),
        "of all sizes": np.exp(20 * z[:40]),
        "an outlier": np.r_[z[1:], 1e12],
        "rounded": z.round(1),
        "resampled": rng.choice(z, n),
        "even steps": np.arange(n) * 0.1,
        "few": z[:30],
    }


SAMPLES = _samples()


def _by_pairs(X: np.ndarray, h: float, weights: Any = None) -> float:
    """The fixed point within a tenth of ``h``."""

    def excess(log_t: float) -> float:
        return math.log(reference.sheather_jones_map(X, math.exp(log_t), weights)) - log_t

    return math.exp(brentq(excess, 2 * math.log(0.9 * h), 2 * math.log(1.1 * h), xtol=1e-12) / 2)


@pytest.mark.parametrize("name", SAMPLES)
def test_bandwidth_is_the_fixed_point_by_all_pairs(backend: Any, name: str) -> None:
    X = SAMPLES[name]
    h = backend.asnumpy(bandwidth.isj(backend.asarray(X)))
    assert (h.dtype, h.shape) == (np.float64, (1,))
    assert h[0] == pytest.approx(_by_pairs(X, h[0]), rel=FEW_PAIRS if name == "of all sizes" else PAIRS)


def test_weights_count_in_functionals_and_in_rows(backend: Any) -> None:
    X = SAMPLES["bimodal"]
    w = np.random.default_rng(1).exponential(size=len(X))
    h = backend.asnumpy(bandwidth.isj(backend.asarray(X[:, None]), weights=backend.asarray(w)))[0]
    assert h == pytest.approx(_by_pairs(X, h, w), rel=PAIRS)
    assert abs(h / bandwidth.isj(X)[0] - 1) > 100 * PAIRS


def test_weights_follow_their_rows_where_gaps_are_closed(backend: Any) -> None:
    X = SAMPLES["far clusters"]
    w = np.random.default_rng(1).exponential(size=len(X))
    h = backend.asnumpy(bandwidth.isj(backend.asarray(X), weights=backend.asarray(w)))[0]
    assert h == pytest.approx(_by_pairs(X, h, w), rel=PAIRS)


def test_rows_without_weight_do_not_count() -> None:
    X, w = SAMPLES["bimodal"], np.random.default_rng(2).uniform(1, 2, 500)
    padded, zeros = np.r_[-1e300, X, 3.0, 1e300], np.r_[0, w, 0, 0]
    assert bandwidth.isj(padded, weights=zeros)[0] == pytest.approx(bandwidth.isj(X, weights=w)[0], rel=SAME)


@pytest.mark.parametrize(("factor", "offset"), [(1e-200, 0), (1e200, 0), (-3.7, 0), (1, 1e6), (1e-3, -50)])
@pytest.mark.parametrize("name", ["bimodal", "heavy tails"])
def test_bandwidth_scales_with_the_data_and_ignores_offsets(name: str, factor: float, offset: float) -> None:
    X = SAMPLES[name]
    assert bandwidth.isj(X * factor + offset)[0] == pytest.approx(abs(factor) * bandwidth.isj(X)[0], rel=PAIRS)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_narrow_data_are_taken_as_they_are(backend: Any, dtype: str) -> None:
    X = (SAMPLES["bimodal"] * 100).astype(dtype)
    h = backend.asnumpy(bandwidth.isj(backend.asarray(X)))
    assert h.dtype == np.float64
    assert h[0] == pytest.approx(bandwidth.isj(X.astype(np.float64))[0], rel=1e-9)


# Other programs


@pytest.mark.parametrize(
    ("t", "rows", "waves", "left"), [(0.01, 50, 50, 0.0099076220293967618515), (0.07, 25, 10, 0.068342291525717486795)]
)
def test_fixed_point_is_that_of_the_authors_program(t: float, rows: int, waves: int, left: float) -> None:
    # Values of t - g(t) that their MATLAB program gives, by KDEpy's documentation: squared cosine coefficients and
    # squared wave numbers are both 1, 2, 3, ..., on an interval of length 1.
    numbers = np.arange(1.0, waves + 1)
    spectrum = improved_sheather_jones.Spectrum(np.pi**2 * numbers, numbers / 2, rows)
    assert t - spectrum.stages(t)[-1] == pytest.approx(left, rel=1e-12)


def test_root_is_that_of_the_authors_program() -> None:
    numbers = np.arange(1.0, 51)
    spectrum = improved_sheather_jones.Spectrum(np.pi**2 * numbers, numbers / 2, 50)
    assert improved_sheather_jones._root(spectrum.excess, 1e-9, 1) == pytest.approx(9.237610787616029e-05, rel=1e-8)


def _quantiles(name: str) -> np.ndarray:
    u = (np.arange(1000) + 0.5) / 1000
    modes = stats.norm.ppf((np.arange(500) + 0.5) / 500)
    return {"normal": stats.norm.ppf(u), "gamma": stats.gamma(2).ppf(u), "bimodal": np.r_[modes, 8 + modes]}[name]


@pytest.mark.parametrize(
    ("name", "kdepy"),
    [("normal", 0.10443016172591121), ("gamma", 0.11043563843192217), ("bimodal", 0.17421045630539425)],
)
def test_bandwidth_is_that_of_kdepy_in_the_unit_of_its_grid(name: str, kdepy: float) -> None:
    # improved_sheather_jones of KDEpy 1.1.12 multiplies the root on its grid of 1,024 points by the range of the data;
    # the grid is longer by max(6, range / 2) on either side. Its steps are a tenth of the bandwidth: 0.1% is theirs.
    X = _quantiles(name)
    data = np.ptp(X)
    grid = data + 2 * max(6, data / 2)
    assert bandwidth.isj(X)[0] == pytest.approx(kdepy * grid / data, rel=2e-3)


# What it is for


@pytest.mark.long
@pytest.mark.parametrize("distance", [8, 30])
def test_two_modes_are_not_smoothed_into_one(distance: float) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal(2000) + distance * (np.arange(2000) % 2)
    Y = np.linspace(-6, distance + 6, 2001)
    density = (stats.norm.pdf(Y) + stats.norm.pdf(Y - distance)) / 2

    def error(h: Any) -> float:
        return float(((cukde.kde(X, Y, h) - density) ** 2).sum() * (Y[1] - Y[0]))

    ours, silverman = bandwidth.isj(X), bandwidth.silverman(X)
    assert 3 * ours[0] < silverman[0]
    assert 10 * error(ours) < error(silverman)


def test_blocks_of_rows_are_binned_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    X = SAMPLES["normal"]
    whole = bandwidth.isj(X, weights=X**2)[0], bandwidth.isj(X)[0]
    monkeypatch.setattr(improved_sheather_jones, "_BLOCK", 64)
    assert (bandwidth.isj(X, weights=X**2)[0], bandwidth.isj(X)[0]) == pytest.approx(whole, rel=1e-10)


# Where there is none


@pytest.mark.parametrize(
    "X",
    [
        pytest.param(np.arange(3.0).repeat(100), id="three values"),
        pytest.param(np.r_[np.zeros(50), np.ones(50)], id="two values"),
        pytest.param(SAMPLES["normal"].round(), id="rounded too far"),
        pytest.param(np.r_[np.zeros(50), 1e-12 * np.ones(50), 1.0], id="values far apart and close"),
    ],
)
def test_discrete_data_are_refused(backend: Any, X: Any) -> None:
    with pytest.raises(
        ValueError, match=r"no bandwidth by the improved Sheather-Jones rule.*write cukde.bandwidth.silverman"
    ):
        bandwidth.isj(backend.asarray(X))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.data())
def test_what_the_error_suggests_works_whatever_the_data(data: Any) -> None:
    """The reference rule has a bandwidth wherever this one has none; so have the values, counted once."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    n, kind = data.draw(st.integers(2, 200)), data.draw(st.sampled_from(["few", "atom", "rounded", "apart"]))
    X = rng.normal(size=n)
    if kind == "few":
        X = rng.integers(0, data.draw(st.integers(2, 6)), n).astype(float)
    elif kind == "atom":
        X[: int(rng.uniform(0, 1) * n)] = 0
    elif kind == "rounded":
        X = np.round(X * 10 ** rng.uniform(-1, 1))
    else:
        X = 10.0 ** rng.integers(0, 15, n)
    X[0] = 7
    try:
        bandwidth.isj(X)
    except ValueError as error:
        assert "write cukde.bandwidth.silverman(X)" in str(error)  # noqa: PT017
    values, counts = np.unique(X, return_counts=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BandwidthRangeWarning)
        assert 0 < bandwidth.isj(values, weights=counts)[0] < 4 * np.ptp(X)
    assert bandwidth.silverman(X)[0] > 0


def test_few_effective_rows_take_the_widest() -> None:
    """The widest that a density of the deviation needs, with a warning: 35/243 is the least norm of a curvature."""
    for X, w in (([1.0, 2.0], None), ([0.0, 1.0, 1.5], [20.0, 1.0, 1.0])):
        with pytest.warns(BandwidthRangeWarning, match=r"no bandwidth for .* effective rows.*widest"):
            h = bandwidth.isj(X, weights=w)
        shares = np.ones(len(X)) / len(X) if w is None else np.array(w) / sum(w)
        rows = 1 / (shares @ shares)
        mean = shares @ np.array(X)
        deviation = np.sqrt(shares @ (np.array(X) - mean) ** 2 / (1 - 1 / rows))
        assert h[0] == pytest.approx(3 * deviation * (2 * np.sqrt(np.pi) * 35 * rows) ** -0.2, rel=1e-12)


@pytest.mark.parametrize(
    ("X", "weights", "error", "message"),
    [
        pytest.param(np.ones((5, 2)), None, ValueError, r"one column .*got 2.*bandwidth\.silverman", id="columns"),
        pytest.param([], None, ValueError, r"^X\b", id="no rows"),
        pytest.param([1.0], None, ValueError, "at least 2 rows", id="one row"),
        pytest.param(["a", "b"], None, TypeError, r"^X\b", id="strings"),
        pytest.param([1.0, np.nan], None, ValueError, r"^X\b", id="NaN"),
        pytest.param([0.1] * 7, None, ValueError, "constant columns: 0", id="constant"),
        pytest.param([1.0, 2.0], [2.0, -1.0], ValueError, r"^weights\b", id="negative weight"),
        pytest.param([1.0, 2.0, 3.0], [1.0, 2.0], ValueError, r"^weights\b", id="few weights"),
        pytest.param([1.0, 2.0], [0.0, 3.0], ValueError, "rest on one row", id="one weight"),
    ],
)
def test_bad_arguments_are_refused(X: Any, weights: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        bandwidth.isj(X, weights=weights)


# What it costs

CPU = perf.Peaks(
    "two cores",
    "cpu",
    {"memory": 2e10, "fma": 1e11, "float64": 5e10, "scalar": 6e9},
    0.0,
    2,
    3e9,
    2**25,
    (0, 0),
    "assumed",
)


def test_cost_is_of_one_dimension() -> None:
    with pytest.raises(ValueError, match="d must be 1 for the improved Sheather-Jones rule; got 2"):
        perf.cost("bandwidth.isj", H200, n=100, d=2)
