"""The float64 engine, emulated: every kernel, depth and edge against the oracle, up to the largest radius."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from tests import reference
from tests.density.samples import DOUBLE, OUTPUTS, Sample, verify
from tests.host_emulation._kernel import from_source
from tests.tolerances import DENSITY, FAR

ALLOWED = DENSITY["gpu", "float64"].value


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test, on the emulated device."""
    from cukde.density.pairs.gpu import f64, splits
    from cukde.density.pairs.gpu.arguments import pose

    return SimpleNamespace(f64=f64, pose=pose, grid=splits, monkeypatch=monkeypatch)


def sample(n: int, m: int, d: int, weighted: bool = False) -> Sample:
    return Sample(n, m, d, weighted=weighted, dtype="float64")


def run(gpu: SimpleNamespace, s: Sample, output: str, k: int = 5) -> Any:
    """Sums by the engine."""
    return about(gpu, s, output, s.X.mean(axis=0), k)


def about(gpu: SimpleNamespace, s: Sample, output: str, centre: np.ndarray, k: int = 5) -> Any:
    """Sums by the engine about a centre."""
    of = gpu.pose(s.X, None if s.Y is s.X else s.Y, s.h, Options("float64", s.log_weights, centre, 0.0))
    return gpu.f64.take(of, output, s.V[:, :k] if output == "values" else None)


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
    for beyond in (-(2.0**20), -1e6, -2100.0):
        kernel((1,), (1,), (np.array([beyond]), got, np.int32(940)))
        assert got[0] == 0


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("depth", DOUBLE)
def test_every_shape_and_split(gpu: SimpleNamespace, depth: int, which: int, output: str) -> None:
    """Each tile shape, the data in three splits, the last of them short."""
    s = sample(300, 70, DOUBLE[depth])

    def plan(shapes: Any, n: int, m: int, *others: Any) -> Any:
        shape = shapes[min(which, len(shapes) - 1)]
        return gpu.grid.Plan(shape, -(-m // shape.queries), 3, 128)

    gpu.monkeypatch.setattr(gpu.grid, "plan", plan)
    verify(s, output, run(gpu, s, output), ALLOWED)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("d", [2, 16])
def test_as_far_as_the_limit_of_the_radius(gpu: SimpleNamespace, d: int, output: str) -> None:
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
    sums = about(gpu, s, output, np.zeros(d))
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
def test_operands(gpu: SimpleNamespace, d: int) -> None:
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
    want = np.maximum(s.log_weights / np.log(2), -(2.0**20)) - squares / 2
    np.testing.assert_allclose(made.norms[:150], want, rtol=1e-14)
    assert (made.norms[150:] == -(2.0**20)).all()
