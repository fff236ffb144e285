"""Densities on product grids over domains, and of Dask arrays, against the densities at the grid's points."""

from __future__ import annotations

import math
from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask
from cukde.density.grids import api as grids_api
from tests.conftest import Backend
from tests.density.test_dask import computed
from tests.density.test_grids import mesh
from tests.tolerances import GRID

DOMAINS: dict[str, tuple[Any, Any]] = {
    "walls": ([(0, 1)] * 3, None),
    "periods": (None, [1.0, 1.0, 1.0]),
    "mixed": ([(0, None), None, (None, 1)], [None, 1.5, None]),
}


def sample(d: int, n: int = 90, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X, w = rng.random((n, d)), rng.random(n)
    X[0], X[1], w[2::7] = 0, 1, 0
    return X.astype(dtype), w


def at_points(X: Any, axes: Any, h: Any, **options: Any) -> np.ndarray:
    out: np.ndarray = cukde.kde(X.astype(np.float64), mesh(axes).astype(np.float64), h, **options)
    return out.reshape([len(g) for g in axes])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("h", [0.06, 0.4, 2.0])
@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize("d", [1, 2, 3])
def test_grids_match_the_density_at_their_points(backend: Backend, d: int, name: str, h: float, dtype: str) -> None:
    """By every method; coordinates outside, in any order, equally spaced and not."""
    X, w = sample(d, backend.size(90, 40), dtype)
    bounds, periods = (None if a is None else a[:d] for a in DOMAINS[name])
    axes = [np.linspace(1.2, -0.2, 15), np.array([0.3, -3.1, 0.0, 0.31]), np.array([1.0, 0.2])][:d]
    axes = [g.astype(dtype) for g in axes]
    want = at_points(X, axes, h, weights=w, bounds=bounds, periods=periods)
    options = {"weights": backend.asarray(w), "bounds": bounds, "periods": periods}
    for algorithm in ("auto", "exact", "fft"):
        if algorithm == "fft" and h * d > 0.3:
            continue
        got = cukde.evaluate_grid(backend.asarray(X), axes, h, algorithm=algorithm, **options)
        got = backend.asnumpy(got)
        assert got.dtype == np.dtype(dtype)
        outside = want == 0
        assert (got[outside] == 0).all()
        assert abs(got - want).max() <= GRID[dtype].value * want.max()
        if algorithm == "exact" and dtype == "float64":
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-300)


def test_a_covariance_may_link_periods(backend: Backend) -> None:
    X, _ = sample(2)
    H = np.array([[0.01, 0.006], [0.006, 0.01]])
    axes = [np.linspace(0, 1, 9), np.linspace(-1, 0.5, 7)]
    want = at_points(X, axes, H, periods=[1.0, None])
    for algorithm in ("auto", "fft"):
        got = cukde.evaluate_grid(backend.asarray(X), axes, H, algorithm=algorithm, periods=[1.0, None])
        assert abs(backend.asnumpy(got) - want).max() <= 1e-10 * want.max()


def test_log_densities_and_coordinates_outside(backend: Backend) -> None:
    X, _ = sample(2)
    axes, options = [np.array([-1.0, 0.5, 2.0]), np.array([0.0, 400.0])], {"bounds": [(0, 1), None]}
    log_p = backend.asnumpy(cukde.evaluate_grid(backend.asarray(X), axes, 0.1, log=True, **options))
    want = at_points(X, axes, 0.1, log=True, **options)
    np.testing.assert_allclose(log_p, want, rtol=1e-12)
    assert np.isneginf(log_p).sum() == 4
    none = cukde.evaluate_grid(backend.asarray(X), [np.array([-1.0, 2.0]), axes[1]], 0.1, **options)
    np.testing.assert_array_equal(backend.asnumpy(none), np.zeros((2, 2)))


def test_mass_over_a_domain_is_1_by_a_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large sample takes a transform of its images, whose masses at walls come back."""
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 2))
    taken: list[int] = []
    one = grids_api.grids_transform.density
    monkeypatch.setattr(
        grids_api.grids_transform, "density", lambda x, *a, **o: taken.append(len(x)) or one(x, *a, **o)
    )
    g = (np.arange(200) + 0.5) / 200
    p = cukde.evaluate_grid(X, [g, g], 0.03, bounds=[(0, 1), (0, 1)])
    assert abs(p.mean() - 1) < 1e-6
    assert len(X) < taken[0] < 3 * len(X)
    np.testing.assert_allclose(p[:2, :3], at_points(X, [g[:2], g[:3]], 0.03, bounds=[(0, 1)] * 2), rtol=1e-8)


def test_many_images_are_no_data_of_a_transform() -> None:
    X, _ = sample(2)
    with pytest.raises(ValueError, match=r'algorithm="fft" needs .* few images of the data over bounds and periods'):
        cukde.evaluate_grid(X, [np.zeros(3), np.zeros(3)], 3.0, algorithm="fft", periods=[1.0, 1.0])


class TestDask:
    axes = (np.linspace(-0.2, 1.1, 7), np.array([0.5, 0.0, 3.0]))

    @pytest.mark.parametrize("algorithm", ["auto", "exact", "fft"])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_blocks_are_averaged(self, weighted: bool, algorithm: Any) -> None:
        X, w = sample(2)
        w[:30] = 0  # a block without weight
        weights: Any = w if weighted else None
        for options in ({}, {"bounds": [(0, 1), None], "periods": [None, 1.5]}):
            want = at_points(X, self.axes, 0.1, weights=weights, **options)
            for x, v in (
                (da.from_array(X, chunks=((30, 0, 60), (1, 1))), weights),
                (X, da.from_array(w, chunks=45) if weighted else None),
            ):
                if v is None and x is X:
                    continue
                got = computed(cukde.evaluate_grid(x, self.axes, 0.1, weights=v, algorithm=algorithm, **options))
                assert abs(got - want).max() <= 1e-10 * want.max()
        log_p = computed(cukde.evaluate_grid(da.from_array(X, chunks=(30, 2)), self.axes, 0.1, weights=w, log=True))
        np.testing.assert_allclose(log_p, at_points(X, self.axes, 0.1, weights=w, log=True), rtol=1e-12)

    def test_many_blocks_dtypes_and_backends(self, backend: Backend) -> None:
        X, _ = sample(1, 40, "float32")
        lazy = da.from_array(backend.asarray(X), chunks=(2, 1))
        got = cukde.evaluate_grid(lazy, np.float32([0.1, 0.5]), 0.2)
        assert got.dtype == np.float32
        assert got.chunks == ((2,),)
        p = backend.asnumpy(got.compute(scheduler="synchronous"))
        np.testing.assert_allclose(p, at_points(X, [np.array([0.1, 0.5])], 0.2), rtol=3e-5)

    def test_what_is_wrong_is_said(self) -> None:
        X, w = sample(2)
        lazy = da.from_array(X, chunks=(50, 2))
        with pytest.raises(TypeError, match="axes must be a plain array; got a Dask collection"):
            cukde.evaluate_grid(X, [lazy[:, 0], w], 0.1)
        bad = X.copy()
        bad[70] = math.nan
        with pytest.raises(ValueError, match=r"X must be finite.* \(block 1 of X\)"):
            computed(cukde.evaluate_grid(da.from_array(bad, chunks=(50, 2)), self.axes, 0.1))
        bad[70] = 7
        with pytest.raises(ValueError, match=r"1 of 40 rows have column 0 outside .* \(block 1 of X\)"):
            computed(cukde.evaluate_grid(da.from_array(bad, chunks=(50, 2)), self.axes, 0.1, bounds=[(0, 1), None]))
