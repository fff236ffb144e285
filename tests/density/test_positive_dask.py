"""The positive estimate on Dask arrays against plain arrays, and its mass against the integral."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask

RNG = np.random.default_rng(4)
X, Y = RNG.standard_normal((120, 2)), RNG.standard_normal((40, 2))
W = np.where(np.arange(120) < 50, 0.0, RNG.exponential(size=120))
CHUNKS = [(120,), (50, 0, 1, 69)]


def lazy(a: np.ndarray, rows: Any) -> da.Array:
    return da.from_array(a, chunks=(rows, *a.shape[1:]))


def computed(a: Any) -> Any:
    return a.compute(scheduler="synchronous")


@pytest.mark.parametrize("rows", CHUNKS, ids=["one block", "uneven and empty"])
@pytest.mark.parametrize("h", [0.5, [0.4, 0.6]], ids=["number", "deviations"])
def test_equals_plain_arrays(h: Any, rows: tuple[int, ...]) -> None:
    options = {"weights": W, "mass": 1.2, "log": True}
    got = computed(cukde.positive_kde(lazy(X, rows), Y, h, **options))
    np.testing.assert_allclose(got, cukde.positive_kde(X, Y, h, **options), rtol=1e-12, atol=1e-12)
    got = computed(cukde.positive_score(lazy(X, rows), Y, h, weights=W))
    want = cukde.positive_score(X, Y, h, weights=W)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * abs(want).max())


def test_without_own_rows() -> None:
    options = {"weights": W[50:], "mass": 1, "leave_one_out": True}
    rows = X[50:]
    data = lazy(rows, (30, 40))
    want = cukde.positive_kde(rows, rows, 0.5, **options)
    np.testing.assert_allclose(computed(cukde.positive_kde(data, data, 0.5, **options)), want, rtol=1e-11)


@pytest.mark.parametrize("rows", CHUNKS, ids=["one block", "uneven and empty"])
def test_mass_is_within_its_error(rows: tuple[int, ...]) -> None:
    axis = np.linspace(-8, 8, 81)
    exact = cukde.positive_mass(X, 0.4, weights=W, axes=[axis, axis]).value
    mass = cukde.positive_mass(lazy(X, rows), 0.4, weights=W, samples=4000)
    assert mass.value.shape == ()
    value, error = computed(mass.value), computed(mass.error)
    assert 0 < error < 0.01
    assert abs(value - exact) < 4 * error


def test_mass_that_is_not_given_is_estimated() -> None:
    data = lazy(X, (50, 70))
    mass = cukde.positive_mass(data, 0.4)
    want = cukde.positive_kde(X, Y, 0.4, mass=float(computed(mass.value)))
    for given in (None, mass, mass.value):
        np.testing.assert_allclose(computed(cukde.positive_kde(data, Y, 0.4, mass=given)), want, rtol=1e-12)


def test_domains_have_a_mass_of_their_own() -> None:
    options: Any = {"bounds": [(-4, None), None], "periods": [None, 9.0]}
    axes = [np.linspace(-4, 8, 121), np.linspace(0, 9, 91)]
    exact = cukde.positive_mass(X, 0.5, axes=axes, **options).value
    mass = cukde.positive_mass(lazy(X, (60, 60)), 0.5, **options)
    assert abs(computed(mass.value) - exact) < 4 * computed(mass.error)


def test_refuses_what_needs_data_in_memory() -> None:
    data = lazy(X, (120,))
    with pytest.raises(ValueError, match="axes must be None for Dask arrays"):
        cukde.positive_mass(data, 0.4, axes=[[0, 1, 2], [0, 1, 2]])
    with pytest.raises(ValueError, match=r"mass must be one number, a Dask array of shape \(\)"):
        cukde.positive_kde(data, Y, 0.4, mass=da.ones(3))
