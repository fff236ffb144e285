"""The exponential kernel where pairs are left out: against float64, and what is left out.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from cukde.density.kernel_density import kernel_density
from cukde.density.options import Options
from cukde.density.pairs.cpu.skipping import exponential, exponential_choice
from cukde.density.sums import PartialSums
from tests import reference
from tests.conftest import Backend
from tests.density.test_kernel_density import blocks_left_out
from tests.tolerances import FAR, KERNEL_DENSITY, check

ROUNDING = {np.dtype(name): (KERNEL_DENSITY[name].value, FAR[name].value) for name in ("float32", "float64")}


def of_formula(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the sums, (m,) float64, and the exponents of the largest terms."""
    terms = -np.sqrt(2 * reference.exponents(X, Y, 1.0)) / h
    terms += 0.0 if log_weights is None else log_weights
    largest = terms.max(axis=1)
    logs = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1, dtype=np.longdouble)).astype(np.float64)
    return logs, np.abs(largest)


class Summed(NamedTuple):
    sums: PartialSums
    share: float  # of all pairs, about


def summed(
    backend: Backend, X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None, rtol: float, atol: float
) -> Summed:
    """Take the pass."""
    if backend.name == "numpy":
        on_cpu = exponential.prepare(X, Y, h, log_weights, rtol=rtol, atol=atol)
        taken = exponential.tried(on_cpu, np.arange(len(Y))).summed
        return Summed(exponential.run(on_cpu), taken / (len(X) * len(Y)))
    from cukde.density.pairs.gpu.skipping import exponential as on_gpu, frame

    unit = 2.0 ** -max(0, math.frexp(h)[1])
    on = [backend.asarray(a) for a in (X, Y, log_weights)]
    of_data = None if X.shape[1] == 1 else frame.frame(frame.sample(on[0]).astype(np.float64))
    scale = math.log2(math.e) / (unit * h)
    prepared = on_gpu.prepare(*on[:2], unit, scale, Options("float32", on[2], rtol=rtol, atol=atol), of_data)
    reference, total = map(backend.asnumpy, on_gpu.run(prepared)[:2])
    return Summed(PartialSums(reference, total), on_gpu.share(prepared))


def verify(
    backend: Backend,
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    log_weights: np.ndarray | None = None,
    *,
    rtol: float,
    atol: float = 0.0,
) -> Summed:
    """Take the pass, and check its sums: nothing is added, and what is left out is allowed, beside rounding."""
    taken = summed(backend, X, Y, h, log_weights, rtol, atol)
    sums = taken.sums
    want, largest = of_formula(X, Y, h, log_weights)
    near, far = ROUNDING[X.dtype]
    rounding = np.maximum(near, far * largest)
    excess = sums.reference + np.log(sums.total) - want
    check(excess, rounding, "excess")
    with np.errstate(over="ignore"):  # of an absolute tolerance beside a sum that underflows
        check(-np.expm1(excess), rounding + rtol + (atol * np.exp(-want) if atol else 0.0), "left out")
    return taken


def clusters(d: int, n: int = 3000, m: int = 200, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Clusters some tens of bandwidths of 0.1 apart, with duplicates and an outlier; the last queries are far off."""
    rng = np.random.default_rng([d, n])
    centres = 4 * rng.standard_normal((7, d))
    X = centres[rng.integers(7, size=n)] + 0.3 * rng.standard_normal((n, d))
    X[: n // 8] = X[0]
    X[-1] += 1e3
    Y = X[rng.integers(n, size=m)] + 0.1 * rng.standard_normal((m, d))
    Y[-4:] += 10.0 ** np.arange(1, 5)[:, None]
    Y[: m // 8] = X[: m // 8]
    return X.astype(dtype), Y.astype(dtype)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rtol", [1e-13, 1e-5, 1e-2])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 17])
def test_sums_match_the_formula(backend: Backend, d: int, rtol: float, dtype: str, weighted: bool) -> None:
    X, Y = clusters(d, n=backend.size(3000, 1500), dtype=dtype)
    log_weights = np.random.default_rng(d).uniform(-30, 5, len(X)) if weighted else None
    taken = verify(backend, X, Y, 0.1, log_weights, rtol=rtol)
    assert weighted or d == 17 or taken.share < 0.7


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1024, 1025])
@pytest.mark.parametrize("m", [1, 17, 129])
def test_sizes_off_the_blocks(backend: Backend, n: int, m: int) -> None:
    rng = np.random.default_rng([n, m])
    verify(backend, rng.standard_normal((n, 2)), rng.standard_normal((m, 2)), 0.05, rtol=1e-6)


@pytest.mark.parametrize("atol", [1e-300, 1e-6, 1e-2, 1.0, 100.0, 1e300])
@pytest.mark.parametrize("rtol", [0.0, 1e-13, 1e-3])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_absolute_tolerances(backend: Backend, d: int, rtol: float, atol: float) -> None:
    X, Y = clusters(d, n=backend.size(3000, 1000))
    for log_weights in (None, np.random.default_rng(d).uniform(-12, -3, len(X))):
        verify(backend, X, Y, 0.1, log_weights, rtol=rtol, atol=atol)


def test_an_absolute_tolerance_leaves_out_more(backend: Backend) -> None:
    X, Y = clusters(2)

    def share(atol: float, log_weights: np.ndarray | None = None) -> float:
        return verify(backend, X, Y, 0.1, log_weights, rtol=1e-13, atol=atol).share

    shares = [share(atol) for atol in (0.0, 1e-6, 1e-2, 1.0, 1e300)]
    assert (np.diff(shares) < 0).all()
    # The nearest block of 64, and on the CPU those within two bandwidths, on a GPU those whose boxes hold a query.
    assert shares[-1] < (0.2 if backend.name == "numpy" else 0.5)
    for log_weight in (-6.0, 300.0):  # the same, where all weights are small or large
        assert share(1e-2 * math.exp(log_weight), np.full(len(X), log_weight)) == pytest.approx(shares[2], rel=0.02)


@pytest.mark.parametrize("rtol", [1e-8, 1e-3, 1e-1])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_shells_of_any_radius(backend: Backend, d: int, rtol: float) -> None:
    """Most of the data lie at one distance, where leaving out is just allowed, or just not."""
    rng = np.random.default_rng(d)
    directions = rng.standard_normal((6000, d))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    limit, shares, worst = math.log(6000 / 64 / rtol), [], 0.0
    for radius in limit + np.arange(-3, 3.5, 0.25 if backend.name == "numpy" else 0.75):
        X = np.concatenate((np.zeros((64, d)), radius * directions))
        Y = 1e-9 * directions[:64]
        sums, share = verify(backend, X, Y, 1.0, rtol=rtol)
        shares.append(share)
        worst = max(worst, float(-np.expm1(sums.reference + np.log(sums.total) - of_formula(X, Y, 1.0)[0]).min()))
    # A GPU leaves out single blocks, too, and asks their boxes alone: those of a sphere reach far inwards.
    assert shares[0] > (0.99 if backend.name == "numpy" else 0.97)
    assert shares[-1] < (0.2 if backend.name == "numpy" or d < 3 else 0.9)
    assert worst > 1e-2 * rtol


@pytest.mark.parametrize("n_far", [1, 64, 10_000])
def test_many_steps_of_distance(backend: Backend, n_far: int) -> None:
    """Each step away lies e times as much mass per point's term, so that no bin is small beside all others."""
    steps = np.arange(1, 40)
    counts = np.minimum(n_far * np.exp(0.7 * steps), backend.size(2000, 500)).astype(int)
    X = np.concatenate((np.zeros(64), np.repeat(steps.astype(float), counts)))[:, None]
    for rtol in (1e-10, 1e-4, 1e-2):
        verify(backend, X, np.linspace(-1, 1, 30)[:, None], 1.0, rtol=rtol)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("distance", [1e2, 1e5, 1e9])
def test_queries_far_from_all(backend: Backend, distance: float, dtype: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((2000, 2)).astype(dtype)
    Y = (distance * rng.standard_normal((50, 2))).astype(dtype)
    verify(backend, X, Y, 0.05, rtol=1e-4)
    verify(backend, X, Y, 0.05, np.log(rng.uniform(size=2000)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("away", [20.0, 60.0, 200.0])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_weights_that_outdo_distances(backend: Backend, d: int, away: float, dtype: str) -> None:
    """Of thirty decades, and of one point beside which all others matter only where it is far; and rows without any."""
    X, Y = clusters(d, n=backend.size(3000, 1000), dtype=dtype)
    rng = np.random.default_rng(d)
    log_weights = math.log(10) * rng.uniform(-30, 0, len(X))
    log_weights[::3] = -1e30
    for heaviest in (0.0, 60.0):
        X[5], log_weights[5] = X[4] + 0.1 * away / math.sqrt(d), heaviest
        verify(backend, X, Y, 0.1, log_weights, rtol=1e-3)


def test_isolated_points(backend: Backend) -> None:
    """Each far from all others, and queries at some of them and between."""
    X = np.concatenate((10.0 ** np.arange(-3, 9, 0.02), -(10.0 ** np.arange(-3, 9, 0.02))))[:, None] * [[1.0, -0.5]]
    Y = np.concatenate((X[::9], 1.01 * X[::17]))
    assert verify(backend, X, Y, 1e-3, rtol=1e-5).share < (0.5 if backend.name == "numpy" else 0.7)


class TestChoice:
    """Who takes all pairs."""

    def taken(self, X: np.ndarray, Y: np.ndarray, h: float, rtol: float = 1e-5) -> bool:
        return exponential_choice.prepared(X, Y, h, None, rtol=rtol, atol=0.0) is not None

    @pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
    def test_points_out_of_range(self, value: float) -> None:
        X = np.random.default_rng(0).standard_normal((9000, 2)).astype(np.float32)
        X[5] = value
        assert not self.taken(X, X[:1000], 0.005)
        assert not self.taken(X[6:], X[:1000], 0.005)
        assert not self.taken(X[6:], X[6:1006], 1e-35)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_few_queries_stand_for_all(device: Backend, d: int) -> None:
    """On a GPU: blocks of them, at equal distances."""
    from cukde.density.pairs.gpu.skipping import exponential as on_gpu, frame

    X, Y = map(device.asarray, clusters(d, 1500, 1300))
    of_data = None if d == 1 else frame.frame(frame.sample(X))
    prepared = on_gpu.prepare(X, Y, 1.0, 10 * math.log2(math.e), Options("float32", rtol=1e-5), of_data)
    assert on_gpu._share_of_few(prepared) == pytest.approx(on_gpu.share(prepared), rel=0.7)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rtol_of_the_function(backend: Backend, dtype: str) -> None:
    X, Y = clusters(2, backend.size(20_000, 3000), backend.size(500, 150), dtype)
    w = np.random.default_rng(1).uniform(0, 1, len(X))
    w[::7] = 0
    p, _ = reference.kernel_density(X, Y, 0.1, "exponential", w)
    default = {"float32": 1e-5, "float64": 1e-13}[dtype]

    def call(*, left_out: bool, rtol: float | None = None) -> np.ndarray:
        arrays = [backend.asarray(a) for a in (X, Y, w)]
        with blocks_left_out(whatever=left_out):
            return backend.asnumpy(kernel_density(*arrays[:2], 0.1, kernel="exponential", weights=arrays[2], rtol=rtol))

    dense = call(left_out=False)
    for rtol in (None, 0, 1e-8, 1e-2):
        got = call(left_out=rtol != 0 or backend.name != "numpy", rtol=rtol)
        assert (got == dense).all() == (rtol == 0)
        allowed = KERNEL_DENSITY[dtype].value + (default if rtol is None else rtol)
        check(np.abs(got - p)[:-4], allowed * p[:-4], "density")


@pytest.mark.parametrize("rtol", [-1e-3, 0.2, np.nan])
def test_tolerances_out_of_range(rtol: float) -> None:
    with pytest.raises(ValueError, match=r"rtol must be a number from 0 to 0\.1"):
        kernel_density(np.zeros((3, 1)), np.zeros((3, 1)), 1.0, kernel="linear", rtol=rtol)


def test_same_bits_on_every_run(backend: Backend) -> None:
    arrays = [backend.asarray(a) for a in clusters(2, backend.size(20_000, 2000), backend.size(500, 150))]
    with blocks_left_out(whatever=True):
        runs = [backend.asnumpy(kernel_density(*arrays, 0.1, kernel="exponential", log=True)) for _ in range(2)]
    np.testing.assert_array_equal(*runs)


def test_blocks_are_shared_by_splits(device: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few queries: every split has some of the blocks, or none."""
    from cukde.density.pairs.gpu.skipping import blocks

    monkeypatch.setattr(blocks, "_BLOCKS_OF_SPLIT", 1)
    for n, items in ((64 * 7, 1), (64 * 7, 1000), (64 * 30 + 5, 3)):
        monkeypatch.setattr(blocks, "_ITEMS_OF_MULTIPROCESSOR", items)
        verify(device, *clusters(2, n, 70), 0.1, rtol=1e-5)
