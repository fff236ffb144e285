"""Weights of both signs: densities that are differences, against the formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import Backend

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(150, 2)), RNG.normal(size=(30, 2))
W = RNG.normal(0.3, 2, 150)
W[3] = 0
F = RNG.uniform(0.5, 2, 150)


def terms(h: np.ndarray, correction: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The density and the sum of the absolute terms, both over the sum of the weights; a bandwidth for each row."""
    q = 0.5 * ((Y[:, None] - X[None]) ** 2).sum(axis=-1) / h**2
    kernel = np.exp(-q) / (2 * math.pi * h**2) * (2 - q if correction else 1)
    return kernel @ W / W.sum(), abs(kernel) @ abs(W) / W.sum()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", [{}, {"local_factors": F}], ids=["plain", "factors"])
@pytest.mark.parametrize("name", ["kde", "laplace_kde"])
def test_densities_are_those_of_the_formula(backend: Backend, name: str, options: dict[str, Any], dtype: str) -> None:
    want, size = terms(0.4 * options.get("local_factors", np.ones(150)), name == "laplace_kde")
    assert (want < 0).any()
    assert (want > 0).any()
    x, y = (backend.asarray(a.astype(dtype)) for a in (X, Y))
    given = {key: backend.asarray(value) for key, value in options.items()}
    got = getattr(cukde, name)(x, y, 0.4, weights=backend.asarray(W), signed=True, **given)
    assert got.dtype == dtype
    assert (abs(backend.asnumpy(got) - want) <= (1e-12 if dtype == "float64" else 3e-5) * size).all()


def test_it_is_a_kernel_sum_over_the_sum_of_weights(backend: Backend) -> None:
    x, w = backend.asarray(X), backend.asarray(W)
    sums = backend.asnumpy(cukde.kernel_sum(x, w, x, 0.4))
    got = backend.asnumpy(cukde.kde(x, None, 0.4, weights=w, signed=True))
    np.testing.assert_allclose(got, sums / (2 * math.pi * 0.16 * W.sum()), atol=1e-12)
    by_name = cukde.kde(X=x, Y=x, h=0.4, weights=w, signed=True)
    np.testing.assert_allclose(backend.asnumpy(by_name), got, atol=1e-14)


def test_grids_and_domains_take_them(backend: Backend) -> None:
    axes = [np.linspace(-1, 1, 4), np.linspace(-2, 2, 3)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    options: dict[str, Any] = {"weights": backend.asarray(W), "signed": True}
    got = backend.asnumpy(cukde.evaluate_grid(backend.asarray(X), axes, 0.4, **options))
    np.testing.assert_allclose(got.reshape(-1), cukde.kde(X, points, 0.4, weights=W, signed=True), atol=1e-10)
    inside = abs(X)
    domain: dict[str, Any] = {"bounds": [(0, None), None], "periods": [None, 9.0]}
    y = (np.arange(40) + 0.5) * 0.2, (np.arange(18) + 0.5) * 0.5
    p = cukde.evaluate_grid(backend.asarray(inside), y, 0.4, **options, **domain)
    assert float(p.sum()) * 0.1 == pytest.approx(1, abs=1e-3)


def test_weights_of_one_sign_are_as_ever() -> None:
    np.testing.assert_allclose(
        cukde.kde(X, Y, 0.4, weights=abs(W), signed=True), cukde.kde(X, Y, 0.4, weights=abs(W)), rtol=1e-14
    )
    np.testing.assert_array_equal(cukde.kde(X, Y, 0.4, signed=True), cukde.kde(X, Y, 0.4))
    huge = cukde.kde(X, Y, 0.4, weights=1e300 * W, signed=True)
    np.testing.assert_allclose(huge, cukde.kde(X, Y, 0.4, weights=W, signed=True), rtol=1e-9, atol=1e-14)


def test_frames_are_taken() -> None:
    pandas = pytest.importorskip("pandas")
    frame, w = pandas.DataFrame(X, columns=["a", "b"]), pandas.Series(W)
    missing = frame.copy()
    missing.iloc[0, 0] = np.nan
    got = cukde.kde(missing, pandas.DataFrame(Y, columns=["a", "b"]), 0.4, weights=w, signed=True, nan_policy="omit")
    want = cukde.kde(X[1:], Y, 0.4, weights=W[1:], signed=True)
    np.testing.assert_allclose(got, want, atol=1e-14)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"log": True}, "log must be False with signed=True"),
        ({"leave_one_out": True}, "leave_one_out must be False with signed=True"),
        ({"weights": -abs(W)}, "weights must have a positive sum"),
        ({"weights": W - W.mean()}, "weights must have a positive sum"),
        ({"weights": np.zeros(150)}, "weights must not all be zero"),
        ({"weights": np.r_[np.nan, W[1:]]}, "weights must be finite"),
        ({"weights": W[1:]}, "weights must have shape"),
        ({"h": "silverman"}, "h must be a number or an array with signed=True"),
        ({"signed": False}, "weights must not be negative; .* signed=True"),
        ({"h": -1.0}, "h must be positive"),
    ],
    ids=lambda a: a if isinstance(a, str) else "",
)
def test_what_has_no_meaning_is_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"X": X, "Y": None, "h": 0.4, "weights": W, "signed": True}
    with pytest.raises(ValueError, match=f"^{message}"):
        cukde.kde(**(given | options))


def test_clipping_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^negative must be .keep. with signed=True"):
        cukde.laplace_kde(X, Y, 0.4, weights=W, signed=True, negative="clip")
