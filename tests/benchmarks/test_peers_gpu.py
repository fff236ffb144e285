"""Rivals that want a GPU, a library or both, on NumPy arrays with stand-ins for what they call."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks import peers
from tests import reference


class TestBinnedFFT:
    """Grids of 2^12 and 2^16 points, on NumPy arrays."""

    @pytest.fixture
    def binned(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
        from benchmarks.peers import binned_fft

        monkeypatch.setattr(binned_fft, "cp", np)
        return binned_fft

    @pytest.mark.parametrize(("prefix", "tolerance"), [("", 1e-4), ("fine_", 4e-7)])
    @pytest.mark.parametrize(
        ("op", "exact"),
        [
            ("kde", reference.kde),
            ("sd_kde", reference.sd_kde),
            ("laplace_kde", lambda X, Y, h: reference.laplace(X, Y, h)[0]),
        ],
    )
    def test_density(
        self, binned: ModuleType, op: str, exact: Callable[..., Any], prefix: str, tolerance: float
    ) -> None:
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal(500), rng.uniform(-2, 2, 100)
        want = exact(X, Y, 0.1)
        got = getattr(binned, prefix + op)(X, Y, 0.1)
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * abs(want).max())

    def test_float32_columns(self, binned: ModuleType) -> None:
        X = np.random.default_rng(0).standard_normal((200, 1)).astype("f4")
        for op in ("kde", "sd_kde", "laplace_kde"):
            assert getattr(binned, op)(X, X[:50], 0.3).dtype == np.float32


class TestSignMatrices:
    """Signs and sums of blocks; cuBLAS itself is not here."""

    @pytest.mark.parametrize("block", [16, 48, 2**30])
    @pytest.mark.parametrize("ties", [False, True])
    def test_matrix(self, block: int, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
        from benchmarks.peers import sign_matrices

        def compare(x: Any, y: Any, i: Any, j: Any) -> Any:
            return np.where(i < j, (x > y).astype(np.int8) - (x < y), 0)

        def product(signs: Any) -> Any:
            assert not signs.shape[1] % 16  # or cuBLAS has no tensor cores for it
            wide = signs.astype(np.int32)
            return wide @ wide.T

        rng = np.random.default_rng(0)
        A = rng.standard_normal((70, 5)) + rng.standard_normal((70, 1))
        A = np.round(2 * A) if ties else A
        monkeypatch.setattr(sign_matrices, "cp", np)
        monkeypatch.setattr(sign_matrices, "_compare", lambda: compare)
        monkeypatch.setattr(sign_matrices, "_product", product)
        monkeypatch.setattr(sign_matrices, "_BYTES", block * 80 * 16)
        want = [[stats.kendalltau(a, b).statistic for a in A.T] for b in A.T]
        np.testing.assert_allclose(sign_matrices.kendall_matrix(A), want, rtol=1e-12)


class TestCausalConv1d:
    """Which taps it has, and what is said where it is not installed."""

    @pytest.fixture
    def peer(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())  # type: ignore[arg-type]
        sys.modules.pop("benchmarks.peers.causal_conv1d", None)
        yield importlib.import_module("benchmarks.peers.causal_conv1d")
        sys.modules.pop("benchmarks.peers.causal_conv1d")

    def test_its_call(self, peer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "causal_conv1d", SimpleNamespace(causal_conv1d_fn=reference.conv1d))  # type: ignore[arg-type]
        rng = np.random.default_rng(0)
        x, w = rng.standard_normal((2, 3, 20)), rng.standard_normal((3, 4))
        np.testing.assert_array_equal(peer.forward(x, w), reference.conv1d(x, w))


def test_every_rival_has_its_place_on_the_page() -> None:
    page = peers.PAGE.read_text(encoding="utf-8")
    missing = [name for name in peers.NAMES if f"`{name}`" not in page]
    assert missing == []
