"""Densities by kernels beside the Gaussian against float64 oracles and scikit-learn, and what holds of any kernel.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import integrate

from cukde.core.plan import only
from cukde.density import kernels
from cukde.density.kernel_density import kernel_density
from cukde.density.kernels import KERNELS
from tests import reference
from tests.conftest import Backend
from tests.tolerances import FAR, KERNEL_DENSITY, KERNEL_DENSITY_OF_SIZE, check

BOUNDED = [kernel for kernel in KERNELS if kernel != "exponential"]
DIMENSIONS = (1, 2, 3, 4, 8, 17)


def sample(d: int, n: int, m: int, dtype: str, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray, float]:
    """Data, queries, and a bandwidth that reaches about a third of the pairs; the last query is far from all."""
    rng = np.random.default_rng([d, n])
    X, Y = (rng.standard_normal((rows, d)) + offset for rows in (n, m))
    Y[-1] += 1000.0
    return X.astype(dtype), Y.astype(dtype), math.sqrt(2 * d) * (0.9 if d > 1 else 0.6)


def weights_of(n: int, kind: str) -> np.ndarray | None:
    """None, or weights of which some are tiny and every fifth is zero."""
    if kind == "uniform":
        return None
    w = 10.0 ** np.random.default_rng(n).uniform(-6, 3, n)
    w[::5] = 0
    return w


@contextlib.contextmanager
def blocks_left_out(*, whatever: bool) -> Iterator[None]:
    """Leave out blocks that cannot matter to queries, whatever the sizes, or take all pairs."""
    with only("radial skipping") if whatever else only():
        yield


def ways(backend: Backend) -> Iterator[None]:
    """The CPU takes pairs as few and as many, one after the other, whatever their number."""
    for are_few in (True, False) if backend.name == "numpy" else (False,):
        with only("few") if are_few else only():
            yield


def verify(
    backend: Backend, X: np.ndarray, Y: np.ndarray, h: Any, kernel: str, w: np.ndarray | None = None, **options: Any
) -> np.ndarray:
    """Check a density by each of its passes; return that of the one which it chooses."""
    on = backend.asarray
    call = functools.partial(kernel_density, on(X), on(Y), h, kernel=kernel, weights=on(w), **options)
    found = [backend.asnumpy(call()), *(backend.asnumpy(call()) for _ in ways(backend))]
    for whatever in (True, False):
        with blocks_left_out(whatever=whatever):
            found.append(backend.asnumpy(call()))
    p, size = reference.kernel_density(X, Y, h, kernel, w)
    for got in found:
        assert got.dtype == np.result_type(X, Y)
        name = str(got.dtype)
        allowed = KERNEL_DENSITY[name].value * p + KERNEL_DENSITY_OF_SIZE.value * size + np.finfo(name).tiny
        check(np.abs(got.astype(np.float64) - p), allowed, f"density by {kernel}")
    return found[0]


@pytest.mark.parametrize("weights", ["uniform", "skewed"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_density_matches_reference(backend: Backend, kernel: str, d: int, dtype: str, weights: str) -> None:
    n, m = backend.size(1100, 200), backend.size(300, 70)
    X, Y, h = sample(d, n, m, dtype)
    got = verify(backend, X, Y, h, kernel, weights_of(n, weights))
    assert got[-1] == 0  # so far that the exponential's underflows too
    assert (got[:-1] > 0).mean() > 0.5


@pytest.mark.parametrize("form", ["vector", "covariance"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bandwidths_of_every_form(backend: Backend, kernel: str, form: str) -> None:
    X, Y, h = sample(3, backend.size(700, 150), 60, "float64", offset=1e4)
    factor = h * np.array([[1.0, 0, 0], [0.3, 0.7, 0], [-0.2, 0.1, 1.4]])
    verify(backend, X, Y, np.diag(factor) if form == "vector" else factor @ factor.T, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_by_a_covariance(backend: Backend, kernel: str) -> None:
    X, Y, h = sample(2, 150, 60, "float32")
    verify(backend, X, Y, h**2 * np.array([[1.0, 0.5], [0.5, 2.0]]), kernel)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_data_at_themselves_far_from_zero(backend: Backend, kernel: str, dtype: str) -> None:
    X, _, h = sample(4, backend.size(700, 150), 1, dtype, offset=1e4)
    X = backend.asarray(X)
    at_themselves = backend.asnumpy(kernel_density(X, X, h, kernel=kernel))
    np.testing.assert_array_equal(at_themselves, verify(backend, *2 * (backend.asnumpy(X),), h, kernel))


@pytest.mark.parametrize("kernel", KERNELS)
def test_logarithm(backend: Backend, kernel: str) -> None:
    X, Y, h = sample(3, 150, 60, "float64")
    w = weights_of(150, "skewed")
    p = verify(backend, X, Y, h, kernel, w)
    log_p = backend.asnumpy(
        kernel_density(*map(backend.asarray, (X, Y)), h, kernel=kernel, weights=backend.asarray(w), log=True)
    )
    assert (p > 0).sum() > 30
    np.testing.assert_allclose(log_p[p > 0], np.log(p[p > 0]), rtol=0, atol=1e-12)
    if kernel != "exponential":
        assert (log_p[p == 0] == -np.inf).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithm_of_the_exponential_is_finite_anywhere(backend: Backend, dtype: str) -> None:
    n = backend.size(2300, 333)
    X, Y, _ = sample(3, n, 9, dtype)
    Y *= np.array(10.0 ** np.arange(9)[:, None], dtype)
    w = weights_of(n, "skewed")
    want, nearest = reference.log_exponential_density(X, Y, 0.5, w)
    for _ in ways(backend):
        on = map(backend.asarray, (X, Y))
        got = kernel_density(*on, 0.5, kernel="exponential", weights=backend.asarray(w), log=True)
        got = backend.asnumpy(got)
        check(np.abs(got - want), np.maximum(KERNEL_DENSITY[dtype].value, FAR[dtype].value * nearest), "log density")


@pytest.mark.parametrize("kernel", BOUNDED)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("h", [3, 49, 0.7])
def test_a_point_at_the_edge_does_not_count(backend: Backend, kernel: str, h: float, dtype: str) -> None:
    """As where scikit-learn compares distances: r < h. Just inside, a kernel keeps its digits."""
    h = float(np.dtype(dtype).type(h))
    inside = np.nextafter(np.dtype(dtype).type(h), 0)
    Y = np.array([[h], [-h], [inside], [2 * h]], dtype)
    got = verify(backend, np.zeros((1, 1), dtype), Y, h, kernel)
    assert (got[[0, 1, 3]] == 0).all()
    assert got[2] > 0
    if kernel == "tophat":
        assert got[2] == pytest.approx(0.5 / h, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 3, 17, 64])
@pytest.mark.parametrize("kernel", BOUNDED)
def test_near_the_edge(backend: Backend, kernel: str, d: int, dtype: str) -> None:
    """One point and queries about as far as the bandwidth: sums have no other term that would hide an error."""
    m = backend.size(3000, 300)
    rng = np.random.default_rng(d)
    Y = rng.standard_normal((m, d))
    Y *= (rng.uniform(0.9, 1.0005, m) / np.linalg.norm(Y, axis=1))[:, None]
    Y[: m // 3] *= (1 - 10.0 ** rng.uniform(-9, -3, m // 3))[:, None] / np.linalg.norm(Y[: m // 3], axis=1)[:, None]
    verify(backend, np.zeros((1, d), dtype), Y.astype(dtype), 1.0, kernel)


@pytest.mark.parametrize("kernel", KERNELS)
def test_grid_of_ties(backend: Backend, kernel: str) -> None:
    """Integers, of which many lie at a distance of just the bandwidth."""
    X = np.stack(np.meshgrid(np.arange(12), np.arange(12)), axis=-1).reshape(-1, 2).astype(np.float32)
    verify(backend, X, X, 5.0, kernel)
    np.testing.assert_array_equal(
        backend.asnumpy(kernel_density(backend.asarray(X), backend.asarray(X), 5.0, kernel="tophat") * 144 * 25 * np.pi)
        .round()
        .astype(int),
        (((X[:, None] - X[None]) ** 2).sum(axis=2) < 25).sum(axis=1),
    )


@pytest.mark.parametrize("kernel", BOUNDED)
def test_small_weights_are_not_lost(backend: Backend, kernel: str) -> None:
    """A query that only points of tiny weight are near to."""
    X = np.concatenate((np.zeros(200), 10 + np.linspace(0, 0.5, 20)))[:, None]
    w = np.where(X[:, 0] < 5, 1.0, 1e-200)
    got = verify(backend, X, np.array([[10.2], [0.1]]), 1.0, kernel, w)
    assert 0 < got[0] < 1e-199


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("h", [1e-11, 1e11, 1e-20, 1e20])
@pytest.mark.parametrize("kernel", KERNELS)
def test_bandwidths_of_any_size(backend: Backend, kernel: str, h: float, dtype: str) -> None:
    X, Y, _ = sample(1, 80, 20, dtype)
    X, Y = (a[: len(a) - 1] * np.dtype(dtype).type(h) for a in (X, Y))
    want, size = reference.kernel_density(X, Y, h, kernel)
    allowed = KERNEL_DENSITY[dtype].value * want + KERNEL_DENSITY_OF_SIZE.value * size
    for _ in ways(backend):
        got = backend.asnumpy(kernel_density(*map(backend.asarray, (X, Y)), h, kernel=kernel, log=True))
        check(np.abs(np.exp(got.astype(np.float64)) - want), allowed, "density")


def test_layouts_types_and_empty_queries(backend: Backend) -> None:
    X, Y, h = sample(3, 150, 60, "float64")
    expected = verify(backend, X, Y, h, "linear")
    for x, y in (
        (np.asfortranarray(X), np.asfortranarray(Y)),
        (np.repeat(X, 2, axis=1)[:, ::2], np.repeat(Y, 2, axis=0)[::2]),
    ):
        got = backend.asnumpy(kernel_density(backend.asarray(x), backend.asarray(y), h, kernel="linear"))
        np.testing.assert_array_equal(got, expected)
    empty = backend.asnumpy(kernel_density(backend.asarray(X), backend.asarray(Y[:0]), h, kernel="linear"))
    assert empty.shape == (0,)
    verify(backend, X.astype("f4"), Y, h, "cosine")
    verify(backend, X, Y, h, "cosine", check_finite=False)
    integers = backend.asnumpy(
        kernel_density(backend.asarray(np.arange(9)), backend.asarray([4]), 2.5, kernel="tophat")
    )
    assert integers == pytest.approx([5 / 9 / 5])


def test_splits_of_the_data(backend: Backend) -> None:
    """Few queries: the data are cut, and what the cuts leave is merged."""
    X, Y, h = sample(2, backend.size(20_000, 1500), 3, "float32")
    for kernel in ("epanechnikov", "exponential"):
        verify(backend, X, Y, h, kernel, weights_of(len(X), "skewed"))


@pytest.mark.parametrize("d", [*range(1, 13), 20, 50])
@pytest.mark.parametrize("kernel", KERNELS)
def test_constant_matches_quadrature(kernel: Any, d: int) -> None:
    assert kernels.log_constant(kernel, d) == pytest.approx(-reference.radial_log_integral(kernel, d), abs=1e-12)


def test_constants_of_many_dimensions() -> None:
    """A cosine between 1 - t and 1 - t^2 lies between them in its constant too; none is out of range."""
    for d in (100, 1000, 100_000):
        linear, cosine, epanechnikov = (kernels.log_constant(k, d) for k in ("linear", "cosine", "epanechnikov"))
        assert epanechnikov < cosine < linear
        assert math.isfinite(kernels.log_constant("exponential", d))


@pytest.mark.parametrize("kernel", KERNELS)
def test_density_integrates_to_one(kernel: str) -> None:
    """By quadrature on a line, and in the plane on a grid."""
    X = np.array([[0.0], [0.7], [0.8]])
    breaks = np.unique([x + s for x in X[:, 0] for s in (-0.5, 0.0, 0.5)]).tolist()
    ends = [-25.0, *breaks, 25.0] if kernel == "exponential" else breaks

    def p(y: float) -> float:
        return float(kernel_density(X, [[y]], 0.5, kernel=kernel)[0])

    mass = math.fsum(integrate.quad(p, a, b, epsabs=1e-11)[0] for a, b in itertools.pairwise(ends))
    assert mass == pytest.approx(1, abs=1e-9)

    reach, step = (12.0, 0.08) if kernel == "exponential" else (1.2, 0.01)
    axis = np.arange(-reach, reach, step) + step / 2
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    on_grid = kernel_density(np.array([[0.0, 0.0], [0.3, -0.2]]), grid, [0.5, 0.7], kernel=kernel)
    allowed = 3e-3 if kernel == "tophat" else 3e-4  # its edge cuts cells
    assert on_grid.sum() * step**2 == pytest.approx(1, abs=allowed)


@pytest.mark.parametrize("d", [1, 3, 5, 7])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scikit_learn_agrees(kernel: str, d: int) -> None:
    """In odd dimensions, where its cosine is right."""
    neighbors = pytest.importorskip("sklearn.neighbors", reason="install the test extra")
    X, Y, h = sample(d, 300, 40, "float64")
    w = np.random.default_rng(d).uniform(0.1, 2, 300)
    want = neighbors.KernelDensity(kernel=kernel, bandwidth=h).fit(X, sample_weight=w).score_samples(Y)
    got = kernel_density(X, Y, h, kernel=kernel, weights=w, log=True)
    assert (want > -1e3).sum() > 20
    np.testing.assert_allclose(got[want > -1e3], want[want > -1e3], rtol=1e-9, atol=1e-9)


def test_same_bits_on_every_run(backend: Backend) -> None:
    X, Y, h = sample(4, backend.size(5000, 400), 70, "float32")
    runs = [backend.asnumpy(kernel_density(*map(backend.asarray, (X, Y)), h, kernel="cosine")) for _ in range(2)]
    np.testing.assert_array_equal(*runs)


@pytest.mark.parametrize("kernel", ["gaussian", "triangular", None])
def test_unknown_kernels(backend: Backend, kernel: Any) -> None:
    X = backend.asarray(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"kernel must be one of 'tophat', .*'cosine'; got"):
        kernel_density(X, X, 1.0, kernel=kernel)
