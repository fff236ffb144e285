"""The float64 engines of few and of many dimensions, emulated: shapes, blocks, and the largest radius."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from tests import reference
from tests.density.conftest import Modules
from tests.density.samples import DOUBLE, OUTPUTS, Sample, verify
from tests.host_emulation._kernel import from_source
from tests.tolerances import DENSITY, FAR

ALLOWED = DENSITY["gpu", "float64"].value


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> Modules:
    """The modules under test, on the emulated device; blocks of many dimensions so small that there are several."""
    from cukde.core.gpu import gemm

    modules = Modules(monkeypatch=monkeypatch, gemm=gemm)
    monkeypatch.setattr(modules.wide_f64, "_STAGED_ROWS", 128)
    monkeypatch.setattr(modules.wide_f64, "_STAGED_BYTES", 8 * 128 * 256)
    return modules


def run(
    gpu: Modules, s: Sample, output: str, k: int = 5, squared_radius: float | None = 50.0, centre: Any = None
) -> Any:
    """Sums by the engine of few dimensions or of many, which is told the scaled squared radius or not."""
    options = Options("float64", s.log_weights, s.X.mean(axis=0) if centre is None else centre, squared_radius)
    of = gpu.arguments.prepare(s.X, None if s.Y is s.X else s.Y, s.h, options)
    engine = gpu.f64 if s.X.shape[1] <= 64 else gpu.wide_f64
    return engine.take(of, output, s.V[:, :k] if output == "values" else None)


def sample(n: int, m: int, d: int, weighted: bool = False, itself: bool = False) -> Sample:
    made = Sample(n, m, d, weighted=weighted, dtype="float64")
    if itself:
        made.Y = made.X
    return made


EXP2 = """
#include "exp2_f64.cuh"
extern "C" __global__ void powers(const double* x, double* out, int shift) {
    out[threadIdx.x] = exp2_from(magic + shift, x[threadIdx.x]);
}
"""


def test_powers_of_2_are_right_to_the_error_of_their_polynomial(emulated_device: None) -> None:
    x = np.concatenate([np.linspace(-1.5, 1.5, 960), np.random.default_rng(0).uniform(-1900, 20, 64)])
    kernel = from_source(EXP2, "powers")
    for shift in (0, 940):
        got = np.empty(1024)
        kernel((1,), (1024,), (x, got, np.int32(shift)))
        counts = x + shift > -1021
        # Exact in extended precision but for the shift, which changes no digit.
        want = np.exp2(x[counts].astype(np.longdouble)) * np.longdouble(2) ** shift
        error = np.abs(got[counts] / want - 1).astype(float)
        assert 1e-14 < error.max() < 1.4e-14
        assert (got[x + shift < -1022] == 0).all()
    for beyond in (-(2.0**30), -(2.0**28), -1e6, -2100.0):
        kernel((1,), (1,), (np.array([beyond]), got, np.int32(940)))
        assert got[0] == 0


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("depth", DOUBLE)
def test_every_shape_and_split(gpu: Modules, depth: int, which: int, output: str) -> None:
    """Each tile shape, the data in three splits, the last of them short."""
    s = sample(300, 70, DOUBLE[depth])

    def plan(shapes: Any, n: int, m: int, *others: Any) -> Any:
        shape = shapes[min(which, len(shapes) - 1)]
        return gpu.splits.Plan(shape, -(-m // shape.queries), 3, 128)

    gpu.monkeypatch.setattr(gpu.splits, "plan", plan)
    verify(s, output, run(gpu, s, output), ALLOWED)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 16])
def test_as_far_as_the_limit_of_the_radius_in_few_dimensions(gpu: Modules, d: int, output: str) -> None:
    """Data and queries on a sphere of the largest radius: some queries have data near, others only opposite."""
    s = sample(150, 70, d)
    rng = np.random.default_rng(d)
    radius = plan_gpu.MOST_F64[output] ** 0.5
    s.h = 0.7

    def on_sphere(directions: np.ndarray) -> np.ndarray:
        return 0.999 * radius * s.h * directions / np.linalg.norm(directions, axis=1, keepdims=True)

    first = np.eye(d)[0]
    s.X = on_sphere(first + 0.05 * rng.standard_normal((150, d)))
    s.Y = on_sphere(np.where(np.arange(70)[:, None] % 2, -first, first) + 0.05 * rng.standard_normal((70, d)))
    if output != "values":  # of a few data the weights are the smallest that there are
        s.w = np.where(np.arange(150) % 10, 1.0, 1e-300)
    sums = run(gpu, s, output, centre=np.zeros(d))
    assert ((sums.total >= 1) & (sums.total < 150)).all()
    exponent = reference.nearness(s.X, s.Y, s.h, s.w).exponent
    assert exponent.max() > 1.9 * radius**2
    for queries, allowed in ((exponent < 80, ALLOWED), (exponent >= 80, FAR["float64"].value * exponent.max())):
        part = sample(150, 70, d)
        part.X, part.Y, part.V, part.w, part.h = s.X, s.Y[queries], s.V, s.w, s.h
        of_part = type(sums)(*(None if a is None else a[queries] for a in sums))
        # Beyond the range of float64 there are no values to compare.
        verify(part, "sum" if output == "values" and allowed > ALLOWED else output, of_part, allowed)


@pytest.mark.parametrize("d", [2, 16, 37])
def test_operands(gpu: Modules, d: int) -> None:
    s = sample(150, 40, d, weighted=True)
    s.X += 1e4
    s.Y += 1e4
    centre = s.X.mean(axis=0)
    depth = gpu.f64.task("sum", d, 0).depth
    made = gpu.f64.prepare(s.X, s.Y, centre, s.h, depth, log_weights=s.log_weights)
    scale = np.sqrt(np.log2(np.e)) / s.h
    z, of_queries = ((a - centre) * scale for a in (s.X, s.Y))
    np.testing.assert_allclose(made.data[:150, :d], z, rtol=1e-15)
    np.testing.assert_allclose(made.queries[:, :d], of_queries, rtol=1e-15)
    assert not made.data[150:].any()
    assert not made.data[:, d:].any()
    assert not made.queries[:, d:].any()
    squares = (z**2).sum(axis=1)
    assert s.log_weights is not None
    want = np.maximum(s.log_weights / np.log(2), -(2.0**28)) - squares / 2
    np.testing.assert_allclose(made.norms[:150], want, rtol=1e-14)
    assert (made.norms[150:] == -(2.0**28)).all()


def test_blocks_off_the_diagonal_serve_both_sides(gpu: Modules) -> None:
    """Five tiles of data make 15 blocks of a tile, two at a time, and not 25."""
    widths = []
    made = gpu.gemm.gram

    def gram(*args: Any, **options: Any) -> None:
        widths.append(args[3].width // 128)
        made(*args, **options)

    gpu.monkeypatch.setattr(gpu.gemm, "gram", gram)
    s = sample(600, 1, 66, itself=True)
    for output in OUTPUTS:
        widths.clear()
        run(gpu, s, output)
        assert sorted(widths) == [1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    widths.clear()
    s.w = np.ones(600)
    run(gpu, s, "sum")
    assert sum(widths) == 25


def test_the_same_bits_on_every_run(gpu: Modules) -> None:
    s = sample(500, 1, 66, itself=True)
    for first, second in zip(run(gpu, s, "moments"), run(gpu, s, "moments"), strict=True):
        np.testing.assert_array_equal(first, second)


def gram_in_one_chain(out: Any, A: Any, B: Any, of: Any, dimensions: slice, *, adds: bool = False) -> None:
    """Inner products added up one dimension after the other: no library adds up worse."""
    a, b = A[of.top : of.top + of.height, dimensions], B[of.left : of.left + of.width, dimensions]
    sums = np.zeros((of.height, of.width))
    for k in range(a.shape[1]):
        sums += a[:, k, None] * b[:, k]
    block = out[: of.height, : of.width]
    block[...] = block + sums if adds else sums


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [70, 600])
@pytest.mark.parametrize("referred", [False, True], ids=["without references", "with references"])
def test_as_far_as_the_limit_of_the_radius(gpu: Modules, referred: bool, d: int, output: str) -> None:
    """Data and queries on a sphere of the largest radius: some queries have data near, others only opposite."""
    gpu.monkeypatch.setattr(gpu.gemm, "gram", gram_in_one_chain)
    s = sample(150, 70, d)
    rng = np.random.default_rng(d)
    limit = plan_gpu.MOST_NORMS_F64 if referred else plan_gpu.MOST_F64[output]
    s.h = 0.7

    def on_sphere(directions: np.ndarray) -> np.ndarray:
        return 0.999 * limit**0.5 * s.h * directions / np.linalg.norm(directions, axis=1, keepdims=True)

    first = np.ones(d) / d**0.5
    near = 0.1 / d**0.5
    s.X = on_sphere(first + near * rng.standard_normal((150, d)))
    s.Y = on_sphere(np.where(np.arange(70)[:, None] % 2, -first, first) + near * rng.standard_normal((70, d)))
    if output != "values":  # of a few data the weights are the smallest that there are
        s.w = np.where(np.arange(150) % 10, 1.0, 1e-300)
    sums = run(gpu, s, output, squared_radius=limit, centre=np.zeros(d))
    assert ((sums.total >= 1) & (sums.total < 2)).all()
    assert verified(s, output, sums).max() > 1.9 * limit


def verified(s: Sample, output: str, sums: Any) -> np.ndarray:
    """Check queries near some data, and those far from all; return their least exponents."""
    exponent = reference.nearness(s.X, s.Y, s.h, s.w).exponent
    for queries, allowed in ((exponent < 80, ALLOWED), (exponent >= 80, FAR["float64"].value * exponent.max())):
        assert queries.any()
        part = sample(len(s.X), len(s.Y), s.X.shape[1])
        part.X, part.Y, part.V, part.w, part.h = s.X, s.Y[queries], s.V, s.w, s.h
        of_part = type(sums)(*(None if a is None else a[queries] for a in sums))
        # Beyond the range of float64 there are no values to compare.
        verify(part, "sum" if output == "values" and allowed > ALLOWED else output, of_part, allowed)
    return exponent


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [70, 200])
@pytest.mark.parametrize("squared_radius", [2e3, 0.99 * plan_gpu.MOST_WIDE_F64])
@pytest.mark.parametrize("itself", [False, True], ids=["queries", "itself"])
def test_points_far_from_the_centre_lose_no_digits(
    gpu: Modules, itself: bool, squared_radius: float, d: int, output: str
) -> None:
    """Groups of data at their queries, in all columns or in one, some of them the same, and a query far from all."""
    gpu.monkeypatch.setattr(gpu.gemm, "gram", gram_in_one_chain)
    s = sample(150, 70, d, weighted=output != "values", itself=itself)
    radius = 0.9 * squared_radius**0.5 * s.h
    for points in (s.X,) if itself else (s.X, s.Y):
        points[::3] += radius / d**0.5
        points[1::3, 4] -= radius
        points[60:62] = points[30]
    if not itself:
        s.Y[5] += 0.5 * (s.Y[1] - s.Y[5])
    sums = run(gpu, s, output, squared_radius=squared_radius, centre=np.zeros(d))
    if itself:
        verify(s, output, sums, ALLOWED)
    else:
        verified(s, output, sums)


def test_long_products_of_far_points_are_made_in_parts(gpu: Modules) -> None:
    """Each query has one datum near, and the rounding of one exponent."""
    at_a_time = gpu.wide_f64._dimensions_at_a_time
    assert [at_a_time(*of) for of in ((72, 620.0), (768, 250.0), (768, 620.0), (1000, 620.0))] == [72, 768, 256, 336]

    gpu.monkeypatch.setattr(gpu.gemm, "gram", gram_in_one_chain)
    s = sample(200, 200, 1000)
    s.X -= 3
    s.Y = s.X + 0.05 * np.random.default_rng(0).standard_normal(s.X.shape)
    for points in (s.X, s.Y):
        points *= 0.999 * plan_gpu.MOST_F64["sum"] ** 0.5 * s.h / np.linalg.norm(points, axis=1, keepdims=True)
    centre = np.zeros(1000)
    verify(s, "sum", run(gpu, s, "sum", squared_radius=620.0, centre=centre), ALLOWED)
    with pytest.raises(AssertionError, match="log total"):
        verify(s, "sum", run(gpu, s, "sum", squared_radius=1.0, centre=centre), ALLOWED)
