"""Pictures of densities over domains, and of Dask collections."""

from __future__ import annotations

from typing import Any

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import cukde
from cukde import plot
from cukde.density.domains.domain import domain_of
from cukde.plot import dask as plot_dask
from tests.conftest import Backend
from tests.private import named, plot_estimate, plot_numbers as numbers, plot_regions

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib.figure import Figure  # noqa: E402

RNG = np.random.default_rng(4)
WAITS, ANGLES = RNG.exponential(size=150), RNG.normal(0, 40, 150)
BOTH = np.stack([WAITS, ANGLES], axis=1)
DOMAIN: dict[str, Any] = {"bounds": [(0, None), None], "periods": [None, 360]}
FUNCTIONS: dict[str, Any] = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}


def new(*shape: int) -> Any:
    return Figure().subplots(*shape)


@pytest.mark.parametrize("method", FUNCTIONS)
def test_curves_are_those_of_the_domain(backend: Backend, method: Any) -> None:
    ax = plot.density(backend.asarray(WAITS), 0.3, ax=new(), method=method, bounds=[(0, None)], points=40, resamples=3)
    x, p = ax.lines[0].get_data()
    assert x[0] == 0
    np.testing.assert_allclose(p, FUNCTIONS[method](WAITS, x, 0.3, bounds=[(0, None)]), rtol=1e-9, atol=1e-12)
    ax = plot.density(backend.asarray(ANGLES), 20.0, ax=new(), method=method, periods=[360], points=40, band=None)
    x, p = ax.lines[0].get_data()
    assert (x[0], x[-1]) == (0, 360)
    np.testing.assert_allclose(p, FUNCTIONS[method](ANGLES, x, 20.0, periods=[360]), rtol=1e-9, atol=1e-12)


def test_the_band_is_that_of_densities_on_the_domain() -> None:
    domain = domain_of([(0, None)], None, 1)
    data = plot_estimate(named("cpu"), WAITS[:, None], None, 0.2, "kde", domain=domain)
    curve = numbers.curve(data, 20, None, 0.9, 200, 0)
    assert curve.band is not None
    low, high = curve.band
    assert (low[:3] > 0.6 * curve.density[:3]).all()  # without reflection half of it
    assert ((low <= curve.density) & (curve.density <= high)).mean() > 0.9


@pytest.mark.parametrize("method", FUNCTIONS)
def test_regions_hold_their_shares_within_the_domain(method: Any) -> None:
    domain = domain_of(DOMAIN["bounds"], DOMAIN["periods"], 2)
    data = plot_estimate(named("cpu"), BOTH, None, [0.3, 20.0], method, domain=domain)
    found = plot_regions(data, [0.5], 30, 1000, 0)
    assert (found.x[0], found.y[0], found.y[-1]) == (0, 0, 360)
    grid = np.stack(np.meshgrid(found.x, found.y), axis=-1).reshape(-1, 2)
    want = FUNCTIONS[method](BOTH, grid, [0.3, 20.0], **DOMAIN).reshape(30, 30)
    np.testing.assert_allclose(found.density, want, rtol=1e-4, atol=1e-5 * want.max())
    at_rows = FUNCTIONS[method](BOTH, BOTH, [0.3, 20.0], leave_one_out=True, **DOMAIN)
    np.testing.assert_allclose(found.levels, [np.sort(at_rows)[75]], rtol=1e-4)


@pytest.mark.parametrize("method", FUNCTIONS)
@pytest.mark.parametrize("wide", [False, True])
def test_levels_leave_out_own_kernels_with_their_images(method: Any, wide: bool) -> None:
    """Of few rows, of which own kernels are much; of columns that are correlated around their periods, too."""
    X, domain = BOTH[:12] % 4, domain_of(None, [4.0, 4.0], 2)
    h = np.array([[2.0, 1.0], [1.0, 2.0]]) if wide else np.array([[0.2, 0.1], [0.1, 0.2]])
    found = plot_regions(plot_estimate(named("cpu"), X, None, h, method, domain=domain), [0.5], 5, 50, 0)
    want = FUNCTIONS[method](X, X, h, periods=[4.0, 4.0], leave_one_out=True)
    np.testing.assert_allclose(found.levels, [np.sort(want)[6]], rtol=1e-3)


def test_bounds_and_periods_by_name() -> None:
    frame = pd.DataFrame(BOTH, columns=["wait", "angle"])
    by_name = plot.contours(frame, ax=new(), points=8, bounds={"wait": (0, None)}, periods={"angle": 360})
    plain = plot.contours(BOTH, ax=new(), points=8, **DOMAIN)
    np.testing.assert_array_equal(by_name.collections[0].levels, plain.collections[0].levels)


def test_pairs_have_the_domain_of_their_columns() -> None:
    axes = plot.pairs(BOTH, ax=new(2, 2), points=12, **DOMAIN)
    x, p = axes[0, 0].lines[0].get_data()
    h = cukde.bandwidth.silverman(WAITS)[0]
    want = cukde.kde(WAITS, x, h, bounds=[(0, None)])
    np.testing.assert_allclose(p, want, rtol=1e-9, atol=1e-12)
    plot.contours(BOTH, ax=new(), points=12, **DOMAIN)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^X\b"):
        plot.density(ANGLES, ax=new(), bounds=[(0, 1)])
    with pytest.raises(ValueError, match=r"^bounds\b.*2"):
        plot.contours(BOTH, ax=new(), bounds=[(0, None)])
    with pytest.raises(ValueError, match="log_scale must be False for columns with bounds or a period; column 0"):
        plot.contours(BOTH, ax=new(), log_scale=[True, False], bounds=[(0, None), None])
    with pytest.raises(TypeError, match="hue must be None beside Dask collections"):
        plot.contours(da.from_array(BOTH), ax=new(), hue=WAITS > 1)
    with pytest.raises(ValueError, match=r"^h\b"):
        plot.contours(BOTH, np.array([[1, 0.5], [0.5, 1]]), ax=new(), **DOMAIN)


class TestDask:
    def test_few_rows_are_drawn_as_they_are(self) -> None:
        lazy = da.from_array(BOTH, chunks=(40, 1))
        for one, other in (
            (plot.density(lazy[:, 0], ax=new(), points=20), plot.density(WAITS, ax=new(), points=20)),
            (
                plot.density(WAITS, ax=new(), points=20, weights=da.from_array(WAITS, chunks=40)),
                plot.density(WAITS, ax=new(), points=20, weights=WAITS),
            ),
        ):
            np.testing.assert_array_equal(one.lines[0].get_ydata(), other.lines[0].get_ydata())
        assert plot.contours(lazy, ax=new(), points=8).get_xlabel() == "x0"

    def test_frames_keep_their_names(self) -> None:
        frame = dd.from_pandas(pd.DataFrame(BOTH, columns=["wait", "angle"]), npartitions=3)
        frame = frame[frame["wait"] > 0.1]  # blocks of unknown sizes
        assert plot.contours(frame, ax=new(), points=8).get_ylabel() == "angle"
        assert plot.density(frame["wait"], ax=new(), points=8).get_xlabel() == "wait"
        axes = plot.pairs(frame, columns=["angle", "wait"], ax=new(2, 2), points=8)
        assert axes[1, 0].get_xlabel() == "angle"

    def test_of_many_rows_a_random_sample(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(plot_dask, "MOST_ROWS", 50)
        lazy, w = da.from_array(BOTH, chunks=(40, 2)), np.arange(150.0)
        for weights in (w, da.from_array(w, chunks=60)):
            x, v = plot_dask.sample(lazy, weights, 0, 3)
            assert x.shape == (50, 2)
            np.testing.assert_array_equal(x, BOTH[v.astype(int)])
            assert len(set(v)) == 50
            np.testing.assert_array_equal(plot_dask.sample(lazy, weights, 0, 3)[0], x)
            assert not np.array_equal(plot_dask.sample(lazy, weights, 1, 3)[0], x)
        with pytest.raises(ValueError, match=r"weights must have shape \(150,\)"):
            plot_dask.sample(lazy, w[:9], 0, 3)
