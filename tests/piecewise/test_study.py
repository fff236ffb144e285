"""The source's variants that piecewise polynomials are measured against, the benchmark, and its figure."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from benchmarks.piecewise import bench_piecewise_gpu
from docs.figures import piecewise as figures_piecewise
from tests import host_emulation
from tests.benchmarks import untimed
from tests.compilation import resources
from tests.conftest import launcher

KINDS = ("BASE", "UNROLLED", "BRANCH_FREE", "REGISTERS", "SHARED")
DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16])

# A rounding of one operation; of a float16 sum that is subnormal, half of its last place.
ROUNDING = {"float32": (2.0**-24, 2.0**-126), "float16": (2.0**-11, 2.0**-25)}


@pytest.fixture
def study() -> ModuleType:
    return launcher("piecewise.study")


def _layouts(kind: str) -> tuple[str, ...]:
    return ("soa",) if kind == "SHARED" else ("aos", "soa")


VARIANTS = pytest.mark.parametrize(("kind", "layout"), [(kind, layout) for kind in KINDS for layout in _layouts(kind)])


def _polynomials(pieces: int, degree: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    """Knots that float16 has, and coefficients (D + 1, P)."""
    rng = np.random.default_rng([pieces, degree])
    knots = np.sort(rng.choice(np.arange(-1024, 1025), pieces + 1, replace=False)) / 1024
    return knots.astype(dtype), rng.standard_normal((degree + 1, pieces)).astype(dtype)


def _points(n: int, knots: np.ndarray) -> np.ndarray:
    """Inside, outside, on the knots and beside them, infinite and NaN."""
    dtype, rng = knots.dtype, np.random.default_rng(n)
    around = np.r_[knots, np.nextafter(knots, dtype.type(-9)), np.nextafter(knots, dtype.type(9)), -2, 2, np.nan]
    return rng.permuted(np.r_[around, np.inf, rng.uniform(-1.2, 1.2, n)])[:n].astype(dtype)


def _exact(x: np.ndarray, coefficients: np.ndarray, knots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of the formula, and the sum of its terms' absolute values, in float64."""
    x, c = x.astype(np.float64), coefficients.astype(np.float64)
    piece = [next((i for i, end in enumerate(knots[1:]) if v < end), c.shape[1] - 1) for v in x]
    terms = c[:, np.array(piece, int)] * x ** np.arange(len(c) - 1, -1, -1)[:, None]
    return terms.sum(axis=0), np.abs(terms).sum(axis=0)


def _check(variant: Any, study: ModuleType, n: int, pieces: int, degree: int, dtype: Any) -> None:
    knots, c = _polynomials(pieces, degree, dtype)
    x = _points(n, knots)
    stored = c if variant.layout == "soa" else np.ascontiguousarray(c.T)
    y = study.evaluate(variant, x, stored, knots, np.full_like(x, np.nan))
    finite = np.isfinite(x)
    wanted, size = _exact(x[finite], c, knots)
    u, tiny = ROUNDING[np.dtype(dtype).name]
    # Horner's rule rounds once a coefficient; what is rounded is at most twice the sum of the absolute values here.
    bound = (degree + 1) * (2 * u * size + tiny * 2.0**degree)
    assert (np.abs(y[finite].astype(np.float64) - wanted) <= bound).all()
    np.testing.assert_array_equal(np.isnan(y[np.isnan(x)]), True)


@VARIANTS
@DTYPES
@pytest.mark.parametrize(("n", "pieces", "degree"), [(1, 1, 0), (300, 16, 2), (513, 40, 3), (70, 300, 1)])
def test_variants(
    study: ModuleType, emulated_device: None, kind: str, layout: str, dtype: Any, n: int, pieces: int, degree: int
) -> None:
    _check(study.Variant(kind, layout), study, n, pieces, degree, dtype)


@pytest.mark.parametrize("kind", ["BRANCH_FREE", "SHARED"])
@pytest.mark.parametrize("elements", [2, 8])
def test_several_points_of_a_thread(study: ModuleType, emulated_device: None, kind: str, elements: int) -> None:
    _check(study.Variant(kind, "soa", elements=elements), study, 1025, 16, 2, np.float32)


@pytest.mark.parametrize(("arithmetic", "elements"), [("FLOAT", 1), ("HALF", 2), ("PACKED", 2), ("PACKED", 8)])
@pytest.mark.parametrize("n", [1, 700, 1027])
def test_float16(study: ModuleType, emulated_device: None, arithmetic: str, elements: int, n: int) -> None:
    _check(study.Variant("BASE", "soa", arithmetic, elements), study, n, 16, 5, np.float16)


def test_packed_and_plain_float16_agree(study: ModuleType, emulated_device: None) -> None:
    knots, c = _polynomials(16, 7, np.float16)
    x = _points(900, knots)
    plain, packed = (
        study.evaluate(study.Variant("BASE", "soa", arithmetic, 2), x, c, knots, np.empty_like(x))
        for arithmetic in ("HALF", "PACKED")
    )
    np.testing.assert_array_equal(plain, packed)


def test_beyond_the_last_knot_the_last_piece_goes_on(study: ModuleType, emulated_device: None) -> None:
    """Where the source gives piece 0, or reads before the coefficients."""
    knots, constant = np.array([0, 1, 2, 3], np.float32), np.array([[5, 6, 7]], np.float32)
    x = np.array([-1, 0, 1, 2, 3, 4, np.inf, np.nan], np.float32)
    straight = np.r_[constant, constant]
    for variant in study.SOURCE:
        for c, wanted in (
            (constant, [5, 5, 6, 7, 7, 7, 7, np.nan]),
            (straight, [0, 5, 12, 21, 28, 35, np.inf, np.nan]),
        ):
            stored = c if variant.layout == "soa" else c.T.copy()
            y = study.evaluate(variant, x, stored, knots, np.empty_like(x))
            np.testing.assert_array_equal(y, wanted)


def test_more_pieces_than_shared_memory_holds_are_refused(study: ModuleType) -> None:
    c = np.ones((4, 4096), np.float32)
    with pytest.raises(ValueError, match="4096 pieces take 65536 bytes"):
        study.evaluate(study.Variant("SHARED", "soa"), c[0], c, np.arange(4097, dtype=np.float32), c[0])


@pytest.mark.parametrize("architecture", [75, 90, 120])
@DTYPES
def test_variants_compile_without_spills(study: ModuleType, architecture: int, dtype: Any) -> None:
    others = [study.Variant("BRANCH_FREE", "soa", elements=elements) for elements in (2, 4, 8)]
    if dtype == np.float16:
        others = [study.Variant("BASE", "soa", a, 2) for a in ("FLOAT", "HALF", "PACKED")]
    for variant in (*study.SOURCE, *others):
        taken = resources(architecture, study.STEM, study.kernel(variant, dtype, 256, 3).defines)
        assert taken.spills == taken.stack == taken.shared == 0, variant


_FMA = """
#include "ptx.cuh"
extern "C" __global__ void fma(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) d[i] = fma_f16x2(a[i], b[i], c[i]);
}
"""


def test_emulated_float16_products_are_rounded_once(emulated_device: None) -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(2**16, size=(3, 4000), dtype=np.uint16)
    bits[:, :4] = [[0x3C01, 0x7C00, 0x7BFF, 0], [0x3C01, 0, 0x7BFF, 0x8000], [0x0001, 0x3C00, 0xFC00, 0x8000]]
    bits[:, 4:8] = np.array([[0x7801], [0x3801], [0x0001]])  # a tie, but for the last bit of what is added
    words, out = bits.view(np.uint32), np.empty(2000, np.uint32)
    host_emulation.from_source(_FMA, "fma")((1,), (32,), (*words, out, np.int32(out.size)))
    numbers, found = bits.view(np.float16), out.view(np.float16)
    for (a, b, c), d in zip(numbers.T, found, strict=True):
        if not np.isfinite([a, b, c]).all():
            np.testing.assert_array_equal(d, np.float16(float(a) * float(b) + float(c)))
            continue
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        if abs(exact) >= 65520:
            assert math.isinf(d)
            continue
        error = abs(Fraction(float(d)) - exact)
        beside = [np.nextafter(d, np.float16(way)) for way in (-np.inf, np.inf)]
        assert all(error <= abs(Fraction(float(v)) - exact) for v in beside if np.isfinite(v))


@pytest.fixture
def bench(study: ModuleType, emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, small, with emulated kernels and made-up times."""
    monkeypatch.setattr(bench_piecewise_gpu, "cp", np, raising=False)
    monkeypatch.setattr(bench_piecewise_gpu, "study", study, raising=False)
    monkeypatch.setattr(bench_piecewise_gpu, "N", 2000)

    untimed.use(monkeypatch)
    return bench_piecewise_gpu


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_benchmark_of_variants(bench: ModuleType, study: ModuleType, tmp_path: Path, dtype: str) -> None:
    rows = untimed.Rows()
    bench.bench_uniform(rows, 16, 2, "random", dtype)
    assert [row["peer"]["name"] for row in rows] == [variant.name for variant in study.SOURCE]
    assert len(figures_piecewise.speedups(rows, dtype)["P = 16, D = 2"]) == len(study.SOURCE) + 2
    bench.bench_random_knots(rows, "sorted", dtype)
    assert {row["rel_err_max"] > 0 for row in rows} == {True}
