"""Rivals and variations that benchmarks time compute what they are compared with."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks import peers
from benchmarks.density import variants
from benchmarks.peers import whole_matrix
from tests import reference

H = 0.8


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Plain CuPy on NumPy arrays, in several tiles of queries."""
    pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
    from benchmarks.peers import plain_cupy

    monkeypatch.setattr(plain_cupy, "cp", np)
    monkeypatch.setattr(plain_cupy, "_ELEMENTS", 1000)
    return plain_cupy


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("kde", reference.kde),
        ("sd_kde", reference.sd_kde),
        ("laplace_kde", lambda X, Y, h: reference.laplace(X, Y, h)[0]),
    ],
)
def test_plain_cupy(plain: ModuleType, name: str, exact: Any) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((120, 3)), rng.standard_normal((45, 3))
    np.testing.assert_allclose(getattr(plain, name)(X, Y, H), exact(X, Y, H), rtol=1e-10, atol=1e-14)


def test_kdepy() -> None:
    pytest.importorskip("KDEpy", reason="a rival that only the benchmarks need")
    from benchmarks.peers import kdepy

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal(5000), rng.uniform(-2, 2, 100)
    np.testing.assert_allclose(kdepy.kde(X, Y, 0.2), reference.kde(X, Y, 0.2), rtol=1e-4)
    plane, axes = rng.standard_normal((50, 2)), [np.linspace(-5, 5, 100)] * 2
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    exact = reference.kde(plane, grid, 0.5).reshape(100, 100)
    np.testing.assert_allclose(kdepy.evaluate_grid(plane, axes, 0.5), exact, rtol=0, atol=0.02 * exact.max())


def test_arviz() -> None:
    pytest.importorskip("benchmarks.peers.arviz_kde", reason="a rival that only the benchmarks need")
    from benchmarks.peers import arviz_kde

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal(5000), rng.uniform(-2, 2, 100)
    np.testing.assert_allclose(arviz_kde.kde(X, Y, 0.2), reference.kde(X, Y, 0.2), rtol=1e-2)


def test_fast_kde_is_another_density() -> None:
    pytest.importorskip("fastkde", reason="a rival that only the benchmarks need")
    from benchmarks.peers import fast_kde

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal(5000), rng.uniform(-2, 2, 100)
    np.testing.assert_allclose(fast_kde.kde(X, Y, 0.2), np.exp(-Y * Y / 2) / np.sqrt(2 * np.pi), atol=0.05)
    found = peers.rivals("kde", ("fastKDE",), X, Y, 0.2, error=lambda result: 1.0)["fastKDE"]
    assert found[1] is None


def test_xarray_spatial() -> None:
    pytest.importorskip("xrspatial.kde", reason="a rival that only the benchmarks need")
    from benchmarks.peers import xarray_spatial

    axes = [np.linspace(-5, 5, 40), np.linspace(-4, 4, 30)]
    plane = np.random.default_rng(0).standard_normal((50, 2))
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    exact = reference.kde(plane, grid, 0.5).reshape(40, 30)
    np.testing.assert_allclose(xarray_spatial.evaluate_grid(plane, axes, 0.5), exact, rtol=0, atol=1e-3 * exact.max())


def test_a_rival_that_is_absent_leaves_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(peers._RIVALS, "nobody", ("nobody", "{}"))
    found = peers.rivals("kde", ("nobody",), error=lambda result: 0.0)
    assert found == {"nobody": "ModuleNotFoundError: No module named 'benchmarks.peers.nobody'"}


def test_whole_matrix() -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((120, 3)), rng.standard_normal((45, 3))
    np.testing.assert_allclose(whole_matrix.kde(X, Y, H), reference.kde(X, Y, H), rtol=1e-10)


@pytest.mark.parametrize(
    ("op", "exact"),
    [
        ("kde", reference.kde),
        ("sd_kde", reference.sd_kde),
        ("laplace_kde", lambda X, Y, h: reference.laplace(X, Y, h)[0]),
    ],
)
def test_plain_torch(op: str, exact: Any) -> None:
    torch = pytest.importorskip("torch", reason="a rival that only the benchmarks need")
    plain_torch = pytest.importorskip("benchmarks.peers.plain_torch")
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((120, 3)), rng.standard_normal((45, 3))
    got = getattr(plain_torch, f"_{op}")(torch.from_numpy(X), torch.from_numpy(Y), H).numpy()
    np.testing.assert_allclose(got, exact(X, Y, H), rtol=1e-10, atol=1e-14)


def test_scikit_learn() -> None:
    pytest.importorskip("sklearn")
    from benchmarks.peers import scikit_learn

    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((120, 3)), rng.standard_normal((45, 3))
    np.testing.assert_allclose(scikit_learn.kde(X, Y, H), reference.kde(X, Y, H), rtol=1e-7)


class TestCuvs:
    """What is cut out of its source, and how its kernels are launched; the source itself is not here."""

    FILE = """#include <raft/core/error.hpp>
namespace cuvs::distance {
// comment
template <typename T, cuvs::distance::DistanceType Metric>
struct DistOp;
cuvs::distance::DistanceType::L1 DensityKernelType::Gaussian DensityKernelType::Gaussian
// ====
// Host-side normalization functions
// ====
host code
template <int CELL_TILE>
__global__ void kde_tiled_kernel() {}
// ====
// Double dispatch: runtime enum
"""

    @pytest.fixture
    def cuvs(self) -> ModuleType:
        pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
        from benchmarks.peers import cuvs

        return cuvs

    def test_source(self, cuvs: ModuleType) -> None:
        found = cuvs.source(self.FILE)
        for part in (
            "struct DistOp;",
            "kde_tiled_kernel",
            "DistanceType : int { L1 }",
            "KernelType : int { Gaussian }",
        ):
            assert part in found
        for part in ("raft", "host code", "dispatch", "comment"):
            assert part not in found
        with pytest.raises(ValueError, match=r"kde.cu of cuVS must have 'struct DistOp;' before"):
            cuvs.source("another version")


def test_laplace_in_two_passes(emulated_device: None) -> None:
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((rows, 16)).astype("f4") for rows in (200, 40))
    total, size = reference.laplace(X, Y, 1.5)
    assert (abs(variants.laplace_kde_in_two_passes(X, Y, 1.5) - total) <= 3e-5 * size).all()
