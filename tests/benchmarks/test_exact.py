"""What benchmarks hold their results against, itself against the oracles."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests import reference

H = 0.8


@pytest.fixture
def exact(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """On NumPy arrays, in several blocks of queries."""
    from benchmarks.sources import exact

    monkeypatch.setattr(exact, "_ELEMENTS", 1000)
    return exact


@pytest.fixture
def points() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((120, 3)).astype("f4"), rng.standard_normal((45, 3)).astype("f4")


def test_sums_and_shift(exact: ModuleType, points: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = points
    logs, shift = exact.log_sums_and_shift(X, Y, H)
    scale = reference.log_constant(H, 3) - np.log(len(X))
    np.testing.assert_allclose(logs + scale, reference.log_kde(X, Y, H), rtol=1e-12)
    np.testing.assert_array_equal(exact.log_sums(X, Y, H), logs)
    np.testing.assert_allclose(shift / H**2, reference.score(X, Y, H), rtol=1e-10)


def test_laplace(exact: ModuleType, points: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = points
    scale = np.exp(reference.log_constant(H, 3)) / len(X)
    for got, want in zip(exact.laplace(X, Y, H), reference.laplace(X, Y, H), strict=True):
        np.testing.assert_allclose(scale * got, want, rtol=1e-12)
