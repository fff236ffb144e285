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

H = 0.8


class TestFlash:
    """Each function calls what its authors call, with their tiles and the mode of its name."""

    @pytest.fixture
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        return []

    @pytest.fixture
    def flash(self, calls: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
        pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
        for name, module in _stand_ins(lambda name, of: calls.append((name, of))).items():
            monkeypatch.setitem(sys.modules, name, module)
        sys.modules.pop("benchmarks.peers.flash", None)
        module = importlib.import_module("benchmarks.peers.flash")
        monkeypatch.setattr(module, "cp", np)
        yield module
        sys.modules.pop("benchmarks.peers.flash")  # it has the stand-ins

    @pytest.mark.parametrize(
        ("name", "d", "debiased", "density"),
        [
            ("sd_kde", 16, ("transform", {}), ("kde_eval", {})),
            ("ieee_sd_kde", 16, ("transform", {"precision_mode": "fp32_ieee"}), ("kde_eval", "ieee")),
            (
                "ieee_split_sd_kde",
                16,
                ("transform", {"precision_mode": "fp32_ieee", "emp_score_backend": "ordered_splitk"}),
                ("kde_eval", "ieee"),
            ),
            ("symmetric_sd_kde", 16, ("transform", {"emp_score_backend": "symmetric_atomic"}), ("kde_eval", {})),
            (
                "ieee_symmetric_sd_kde",
                16,
                ("transform", {"precision_mode": "fp32_ieee", "emp_score_backend": "symmetric_atomic"}),
                ("kde_eval", "ieee"),
            ),
            (
                "paper_sd_kde",
                16,
                ("triton_nd_debiasing", {"return_tensor": True, "synchronize": False}),
                ("triton_nd", {"synchronize": False}),
            ),
            ("sd_kde", 1, ("score", "tiles"), ("kde_eval", {})),
            ("ieee_sd_kde", 1, ("score", "tiles"), ("kde_eval", "ieee")),
            ("paper_sd_kde", 1, ("score", "tiles"), ("triton", {"synchronize": False})),
        ],
    )
    def test_sd_kde(
        self,
        flash: ModuleType,
        calls: list[Any],
        name: str,
        d: int,
        debiased: tuple[str, Any],
        density: tuple[str, Any],
    ) -> None:
        X, Y = _data(d)
        got = getattr(flash, name)(X, Y, H)
        np.testing.assert_allclose(got, reference.sd_kde(X, Y, H), rtol=1e-9)
        spelt = {
            "ieee": {"precision_mode": "fp32_ieee"},
            "tiles": {"block_m": 64, "block_n": 128, "num_warps": 1, "num_stages": 2, "synchronize": False},
        }
        expected = [(kind, spelt.get(of, of) if isinstance(of, str) else of) for kind, of in (debiased, density)]
        assert calls[-2:] == expected

    @pytest.mark.parametrize("d", [1, 16])
    @pytest.mark.parametrize(
        ("name", "exact", "called"),
        [
            ("kde", reference.kde, ("kde_eval", {})),
            ("ieee_kde", reference.kde, ("kde_eval", {"precision_mode": "fp32_ieee"})),
            ("laplace_kde", lambda *of: reference.laplace(*of)[0], ("linearized", {})),
            (
                "ieee_laplace_kde",
                lambda *of: reference.laplace(*of)[0],
                ("linearized", {"precision_mode": "fp32_ieee"}),
            ),
        ],
    )
    def test_densities(
        self, flash: ModuleType, calls: list[Any], name: str, exact: Callable[..., Any], called: Any, d: int
    ) -> None:
        X, Y = _data(d)
        np.testing.assert_allclose(getattr(flash, name)(X, Y, H), exact(X, Y, H), rtol=1e-10, atol=1e-14)
        assert calls == [called]

    def test_the_trials_of_the_symmetric_backend_are_not_its_result(self, flash: ModuleType, calls: list[Any]) -> None:
        X, Y = _data(16)
        for _ in range(2):
            flash.symmetric_sd_kde(X, Y, H)
        assert [name for name, _ in calls] == ["transform", *["transform", "kde_eval"] * 2]


def _data(d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(d)
    X, Y = rng.standard_normal((60, d)), rng.standard_normal((15, d))
    return (X[:, 0], Y[:, 0]) if d == 1 else (X, Y)


def _stand_ins(note: Callable[[str, dict[str, Any]], None]) -> dict[str, Any]:
    """Modules with the signatures of Flash-SD-KDE, which note their calls and compute by the formulas."""

    def density(name: str, exact: Callable[..., Any]) -> Callable[..., Any]:
        def call(data: Any, queries: Any, bandwidth: float, **of: Any) -> Any:
            note(name, of)
            return exact(data, queries, bandwidth)

        return call

    def transform(data: Any, bandwidth: float, **of: Any) -> Any:
        note("transform", of)
        return data + 0.5 * bandwidth**2 * reference.score(data, data, bandwidth)

    def triton_nd(data: Any, bandwidth: float, **of: Any) -> Any:
        note("triton_nd_debiasing", of)
        return data + 0.5 * bandwidth**2 * reference.score(data, data, bandwidth), bandwidth

    def score(data: Any, queries: Any, bandwidth: float, **of: Any) -> Any:
        note("score", of)
        return reference.score(data, queries, bandwidth)[:, 0], None, None

    def entry(
        data: Any, *, block_m: int = 64, block_n: int = 128, num_warps: int = 1, num_stages: int = 2, **of: Any
    ) -> Any:
        raise AssertionError("it chooses its own bandwidth")

    public = SimpleNamespace(
        emp_sd_kde_fit_transform=transform,
        kde_eval=density("kde_eval", reference.kde),
        kde_eval_linearized=density("linearized", lambda *of: reference.laplace(*of)[0]),
    )
    kernels = SimpleNamespace(
        empirical_sd_kde_triton=entry,
        empirical_sd_kde_triton_nd=triton_nd,
        gaussian_kde_score_triton=score,
        gaussian_kde_triton=density("triton", reference.kde),
        gaussian_kde_triton_nd=density("triton_nd", reference.kde),
    )
    torch = SimpleNamespace(from_dlpack=lambda a: a)
    return {
        "torch": torch,
        "flash_sd_kde": public,
        "kernels": SimpleNamespace(),
        "kernels.flash_sd_kde": kernels,
    }


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

    def test_why_it_cannot_run(self, peer: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(LookupError, match="has kernels of 2 to 4 taps; got 31"):
            peer.require(31)
        monkeypatch.setitem(sys.modules, "causal_conv1d", None)  # type: ignore[arg-type]
        with pytest.raises(LookupError, match=r"did not import .* with nvcc and PyTorch it is built by"):
            peer.require(4)


def test_keops_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cupy", reason="the module needs CuPy: install the test extra")
    from benchmarks.peers import keops

    monkeypatch.setattr(keops, "_failure_of_trial", lambda: "its first call, which compiles, ended with SIGSEGV")
    monkeypatch.setattr(keops.metadata, "version", {"pykeops": "2.3", "torch": "2.11.0"}.__getitem__)
    X = np.zeros((5, 2))
    found = peers.rivals("kde", ("PyKeOps",), X, X, 1.0, error=lambda density: 0.0)
    assert found["PyKeOps"] == (
        "RuntimeError: tried pykeops 2.3 with PyTorch 2.11.0: its first call, which compiles, ended with SIGSEGV"
    )


def test_every_rival_has_its_place_on_the_page() -> None:
    page = peers.PAGE.read_text(encoding="utf-8")
    missing = [name for name in peers.NAMES if f"`{name}`" not in page]
    assert missing == []
