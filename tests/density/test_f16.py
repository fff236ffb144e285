"""The ordered float16 engine, emulated: every kernel, term, depth and edge against float64; values in two terms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from tests import reference
from tests.conftest import forget
from tests.density.conftest import Modules
from tests.density.samples import ORDERED, OUTPUTS, SHIFT, SYMMETRIC, TOTAL, Sample, as_float, in_order, verify
from tests.tolerances import DENSITY, Tolerance, check

FLOAT32 = DENSITY["gpu", "float32"].value
ALLOWED = {1: 1e-2, 3: FLOAT32, 4: FLOAT32}  # one term: 11 bits of z, r |z| 2^-12 of an exponent
ONE_TERM = Tolerance(2e-5, "2^-16: 2^e and a value in 17 bits each; and exponents near 0; measured 1.3e-5")
"""Error of 2^e V, relative to it."""


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    """The modules under test, on the emulated device; plans made by what a test replaces are not kept."""
    modules = Modules(monkeypatch=monkeypatch)
    forget(modules.f16)
    yield modules
    forget(modules.f16)


def run(gpu: Modules, s: Sample, output: str, products: int, k: int = 5, limit: float = 700.0, **options: Any) -> Any:
    """Sums by the engine, in a given form whatever the scaled squared radius."""
    of_pass = Options("float32", s.log_weights, s.X.mean(axis=0, dtype=float), 0.0)
    of = gpu.passes.prepare(s.X, None if s.Y is s.X else s.Y, s.h, of_pass)
    values = s.V[:, :k] if output == "values" else None
    return gpu.f16.take(of, output, values, form=plan_gpu.Form(products, limit), **options)


@pytest.mark.parametrize("d", [3, 16])
def test_one_data_row(gpu: Modules, d: int) -> None:
    """Errors of the terms that sums are made of, which do not cancel here."""
    s = Sample(1, 1000, d)
    s.V[:, :32] = np.sign(s.V[:, :32]) * (1 + np.abs(s.V[:, :32]) % 2**-7)  # with the largest second terms
    verify(s, "values", run(gpu, s, "values", 3, 64), ONE_TERM.value, 64)


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("depth", [16, 64])
def test_every_shape_and_split(gpu: Modules, depth: int, which: int, output: str) -> None:
    """Both tile shapes, the data in three splits, the last of them short."""
    s = Sample(300, 70, ORDERED[depth])
    chosen = gpu.splits.plan

    def plan(shapes: Any, n: int, m: int, *others: Any) -> Any:
        shape = shapes[min(which, len(shapes) - 1)]
        assert chosen(shapes, n, m, *others).shape in shapes
        return gpu.splits.Plan(shape, -(-m // shape.queries), 3, 128)

    gpu.monkeypatch.setattr(gpu.splits, "plan", plan)
    verify(s, output, run(gpu, s, output, 3), FLOAT32)


def verify_shift(s: Sample, sums: Any, products: int) -> None:
    """Compare with the oracle by the tolerances of the symmetric pass, which sums the same numbers."""
    mode = "one-term" if products == 1 else "split"
    log_total = reference.log_kde(s.X, s.X, s.h) - s.log_scale
    check(np.abs(np.expm1(sums.reference + np.log(sums.total) - log_total)), np.asarray(TOTAL[mode].value), "total")
    error = sums.moments / sums.total[:, None] / s.h - s.h * reference.score(s.X, s.X, s.h)
    check(np.abs(error), np.asarray(SHIFT[mode].value), "mean shift")


@pytest.mark.parametrize("n", [1, 63, 300])
@pytest.mark.parametrize("products", [1, 3])
@pytest.mark.parametrize("depth", SYMMETRIC)
def test_mean_shift_of_data_at_themselves(gpu: Modules, depth: int, products: int, n: int) -> None:
    s = Sample(n, 1, SYMMETRIC[depth])
    s.Y = s.X
    verify_shift(s, run(gpu, s, "moments", products, ratio=True), products)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("depth", [16, 64])
def test_mean_shift_in_every_shape_and_three_splits(gpu: Modules, depth: int, which: int) -> None:
    s = Sample(300, 1, SYMMETRIC[depth])
    s.Y = s.X

    def plan(shapes: Any, *_: Any) -> Any:
        shape = shapes[min(which, len(shapes) - 1)]
        return gpu.splits.Plan(shape, -(-300 // shape.queries), 3, 128)

    gpu.monkeypatch.setattr(gpu.splits, "plan", plan)
    verify_shift(s, run(gpu, s, "moments", 3, ratio=True), 3)


@pytest.mark.parametrize(("d", "squared_radius"), [(5, 100.0), (5, 690.0), (16, 50.0), (16, 250.0), (20, 240.0)])
def test_mean_shift_is_that_of_the_symmetric_pass(gpu: Modules, d: int, squared_radius: float) -> None:
    """Up to the limit of the radius, where sums over hi alone are off by up to ten times SHIFT: both by the same.

    Exponents that differ in their last bits may still round to different float16 numbers.
    """
    s = Sample(200, 1, d)
    s.X[:, 0] += np.where(np.arange(200) % 2, 0.9, -0.9) * (squared_radius**0.5 * s.h - 3)
    form = plan_gpu.forms("float32", d, "moments")[-1]
    found = [
        gpu.passes.partial_sums(
            s.X,
            None,
            s.h,
            "moments",
            Options("float32", squared_radius=form.limit, deterministic=deterministic),
            ratio=True,
        )
        for deterministic in (True, False)
    ]
    ordered, symmetric = (sums.moments / sums.total[:, None] / s.h for sums in found)
    check(np.abs(ordered - symmetric), np.asarray(SHIFT["split"].value), "mean shift")


def test_points_alone_do_not_move(gpu: Modules) -> None:
    s = Sample(20, 1, 16)
    s.X = s.Y = np.random.default_rng(0).permuted(np.outer(np.arange(20), np.full(16, 3)), axis=0).astype(np.float32)
    s.h = 4.0
    sums = run(gpu, s, "moments", 3, ratio=True)
    np.testing.assert_array_equal(sums.moments, 0)
    np.testing.assert_allclose(np.exp(sums.reference) * sums.total, 1, rtol=1e-12)


def test_rounded_sums_are_only_for_data_without_weights_at_themselves(gpu: Modules) -> None:
    """One float16 term of 2^e would not do for a sum of few terms, about other points than the data."""
    for weighted, itself in ((True, True), (False, False)):
        s = Sample(150, 70, 5, weighted=weighted)
        s.Y = s.X if itself else s.Y
        verify(s, "moments", run(gpu, s, "moments", 3, ratio=True), FLOAT32)


@pytest.mark.parametrize("soft_exp", [0, 3, 16])
@pytest.mark.parametrize("output", ["sum", "laplace"])
def test_exponentials_by_polynomial(gpu: Modules, output: str, soft_exp: int) -> None:
    s = Sample(150, 70, 5, weighted=True)
    gpu.monkeypatch.setattr(gpu.f16, "SOFT_EXP", {(3, 16): soft_exp})
    verify(s, output, run(gpu, s, output, 3), FLOAT32)


@pytest.mark.parametrize("output", ["sum", "laplace"])
def test_each_exponential_by_polynomial(gpu: Modules, output: str) -> None:
    """Of one row of data, whose errors no mean hides: the polynomial is off by 3e-6."""
    s = Sample(1, 500, 2)
    s.Y = s.X + np.linspace(0, 4 * s.h, 500, dtype=np.float32)[:, None]
    totals = []
    for soft_exp in (0, 16):
        gpu.monkeypatch.setattr(gpu.f16, "SOFT_EXP", {(3, 16): soft_exp})
        forget(gpu.f16)
        sums = run(gpu, s, output, 3)
        totals.append(np.exp(sums.reference) * sums.total)
    assert (totals[0] != totals[1]).any()  # both ways ran
    np.testing.assert_allclose(totals[1], totals[0], rtol=4e-6)


@pytest.mark.parametrize("output", OUTPUTS)
def test_queries_that_underflow_are_taken_again(gpu: Modules, output: str) -> None:
    """Queries 14 to 24 bandwidths from all data: sums below 2^-120, some of them below float32's range."""
    s = Sample(150, 200, 3)
    s.h = 0.5
    direction = np.random.default_rng(0).standard_normal((200, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    far = 3 + direction * np.random.default_rng(1).uniform(8, 14, (200, 1))
    s.Y = np.where(np.arange(200)[:, None] < 130, s.Y, far).astype(np.float32)
    sums = run(gpu, s, output, 3)
    log_total = reference.log_kde(s.X, s.Y, s.h) - s.log_scale
    assert log_total.min() < -127 * np.log(2)
    exponent = reference.nearness(s.X, s.Y, s.h).exponent
    if output != "values":
        allowed = np.where(exponent < 80, FLOAT32, 2.0**-20 * exponent)
        check(np.abs(sums.reference + np.log(sums.total) - log_total), allowed, "log total")
    if output == "laplace":
        log_scale, total, size = reference.scaled_laplace(s.X, s.Y, s.h)
        allowed = np.where(exponent < 80, FLOAT32, 2.0**-20 * exponent)
        error = np.exp(sums.reference - (log_scale - s.log_scale)) * sums.moments[:, 0] - total
        check(np.abs(error), allowed * size, "Laplace sum")
    if output == "values":
        total, size = reference.kernel_sum(s.X, s.V[:, :5], s.Y, s.h)
        allowed = np.where(exponent < 80, FLOAT32, 2.0**-20 * exponent)[:, None]
        check(np.abs(np.exp(sums.reference)[:, None] * sums.moments - total), allowed * size, "values")


def test_only_blocks_that_underflow_are_taken_again(gpu: Modules) -> None:
    """The difference kernel writes nothing for 64 queries whose sums are all large enough."""
    s = Sample(150, 200, 3)
    s.Y[130] += 1000
    out = gpu.finish.empty(200, 0)
    fast = np.full((3, 200), 1e-30, np.float32)
    fast[1] = 1
    fast[:, 130] = 1e-30
    guard = gpu.difference.Guard(fast_total=fast, least=gpu.f16.LEAST)
    gpu.difference.launch("float32", s.X, s.Y, s.h, "sum", None, None, out=out, guard=guard, one_split=True)
    written = ~np.isnan(out.total)
    np.testing.assert_array_equal(written, np.arange(200) // 64 == 2)


@pytest.mark.parametrize("output", ["sum", "laplace"])
@pytest.mark.parametrize("at", [1.0, np.nan])
def test_beyond_the_limit_no_sum_is_taken_again(gpu: Modules, at: float, output: str) -> None:
    """The results are void; each split leaves 1, which is no sum that may have underflowed."""
    s = Sample(150, 70, 3)
    s.Y[7, 1] *= at
    told: list[Any] = []
    sums = run(gpu, s, output, 3, limit=1e-3, report=told.append)
    assert not told[0][0] <= 1e-3
    assert (sums.total == sums.total[0]).all()
    assert sums.total[0] >= 1
    assert sums.total[0] % 1 == 0


def test_norms_are_exact_where_a_column_is_free(gpu: Modules) -> None:
    """hi + lo of the last column is 1 + what the norm lacks to -|z|^2/2 - 1/2 + log2 w."""
    s = Sample(150, 5, 3, weighted=True)
    centre = s.X.mean(axis=0, dtype=float)
    data, queries = gpu.operands.prepare(s.X, s.Y, centre, s.h, split=True, log_weights=s.log_weights)
    for operand, points, log_weights in ((data, s.X, s.log_weights), (queries, s.Y, None)):
        z = (points - centre) * gpu.operands.scale_of(s.h)
        rows = len(points)
        hi, lo = (a.view(np.float16).astype(float) for a in (operand.hi, operand.lo))
        order = [0, 1, 8]  # of dimensions 0, 1, 2; dimension 3 lies at 9
        np.testing.assert_allclose((hi + lo)[:rows, order], z, atol=2.0**-20)
        rounded = (hi + lo)[:rows, order]
        want = -0.5 * (rounded**2).sum(axis=1) - 0.5
        counts = np.full(rows, True)
        if log_weights is not None:
            want = want + log_weights / np.log(2)
            counts = log_weights > -1e29
        assert (hi[:rows, 9][counts] == 1).all()
        terms = operand.norm_terms.view(np.float16).astype(float)
        assert (terms[:, 3:] == 1).all()
        norms = terms[:, :3].sum(axis=1)
        np.testing.assert_array_equal(norms[:rows][counts] * 2.0**14 % 1, 0)
        np.testing.assert_allclose((norms[:rows] + lo[:rows, 9])[counts], want[counts], atol=2.0**-24)
        assert (norms[:rows][~counts] == np.float16(-60000)).all()
        assert (norms[rows:] == np.float16(-60000)).all()
        assert not hi[rows:].any()
        assert not lo[rows:].any()
        unused = np.setdiff1d(np.arange(16), [*order, 9])
        assert not hi[:, unused].any()


@pytest.mark.parametrize("split", [False, True])
def test_norms_have_23_bits_where_no_column_is_free(gpu: Modules, split: bool) -> None:
    s = Sample(150, 5, 16, weighted=True)
    centre = s.X.mean(axis=0, dtype=float)
    data, _ = gpu.operands.prepare(s.X, s.Y, centre, s.h, split=split, log_weights=s.log_weights)
    z = data.hi.view(np.float16).astype(float) + (data.lo.view(np.float16) if split else 0)
    assert s.log_weights is not None
    want = np.maximum(s.log_weights / np.log(2) - 0.5 * (z[:150] ** 2).sum(axis=1), np.float16(-60000))
    norms = data.norm_terms.view(np.float16)[:150, :3].astype(float).sum(axis=1)
    np.testing.assert_allclose(norms, want, rtol=2.0**-23, atol=2.0**-23)
    mantissa, _ = np.frexp(norms[np.abs(norms) >= 1])
    np.testing.assert_array_equal(mantissa * 2.0**23 % 1, 0)


@pytest.mark.parametrize("d", [2, 16, 37])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_operands_hold_points_to_22_bits_and_their_radius(gpu: Modules, dtype: str, d: int) -> None:
    s = Sample(150, 40, d, dtype=dtype)
    s.X += np.asarray(1e4, dtype)
    s.Y += np.asarray(1e4, dtype)
    centre = s.X.mean(axis=0, dtype=float)
    squared_radius = np.zeros(1, np.float32)
    data, queries = gpu.operands.prepare(s.X, s.Y, centre, s.h, split=True, squared_radius=squared_radius)
    position = np.arange(data.hi.shape[1])
    dimension = position // 16 * 16 + position % 8 // 2 * 4 + position % 16 // 8 * 2 + position % 2
    lengths = []
    for operand, points in ((data, s.X), (queries, s.Y)):
        z = (points.astype(float) - centre) * gpu.operands.scale_of(s.h)
        real = dimension < d
        got = operand.hi.view(np.float16).astype(float) + operand.lo.view(np.float16)
        error = np.abs(got[: len(points), real] - z[:, dimension[real]])
        check(error, 2.0**-23 * np.abs(z[:, dimension[real]]) + 2.0**-25, "z")
        lengths.append((z**2).sum(axis=1).max())
    np.testing.assert_allclose(squared_radius[0], max(lengths), rtol=1e-6)


class TestForm:
    """Which engine, and how many products an exponent takes."""

    @pytest.mark.parametrize(("op", "kernel"), [("kde", "kde"), ("sd_kde", "score")])
    @pytest.mark.parametrize("operands", ["float16", "TF32"])
    def test_operands_of_the_study_replace_those_of_the_library(
        self, gpu: Modules, op: str, kernel: str, operands: str
    ) -> None:
        from benchmarks.density import points, study_tf32, variants
        from benchmarks.perf import launched

        gpu.monkeypatch.setattr(study_tf32, "cp", gpu.finish.cp)
        X, Y, h = points.mixture(150, 70)
        with variants.tf32_operands() if operands == "TF32" else contextlib.nullcontext(), launched.noted() as kernels:
            density = getattr(cukde, op)(X, Y, h, precision="tf32")
        ending = "_tf32" if operands == "TF32" else "_f16"
        assert any(name.startswith(kernel) and name.endswith(ending) for _, name, _ in kernels)
        assert np.abs(density / getattr(reference, op)(X, Y, h) - 1).max() <= 5e-2


class TestPlan:
    """The cost rule, for the multiprocessors of an H200."""

    MULTIPROCESSORS = 132

    def plan(self, gpu: Modules, n: int, m: int, output: str = "sum", depth: int = 16) -> Any:
        prepared = gpu.f16.task(output, 3, depth, 0, False)
        return gpu.splits.plan(prepared.shapes, n, m, 1, self.MULTIPROCESSORS)

    @pytest.mark.parametrize("n", [1, 100, 2048, 10**5, 10**6])
    @pytest.mark.parametrize("m", [1, 4, 256, 4096, 131_072, 10**6])
    @pytest.mark.parametrize("output", ["sum", "moments"])
    def test_every_row_is_in_one_split(self, gpu: Modules, output: str, m: int, n: int) -> None:
        plan = self.plan(gpu, n, m, output)
        assert plan.query_blocks * plan.shape.queries >= m
        assert (plan.query_blocks - 1) * plan.shape.queries < m
        assert plan.splits * plan.split_rows >= n
        assert (plan.splits - 1) * plan.split_rows < n
        assert plan.split_rows % plan.shape.tile == 0


def test_a_block_of_zero_weights_yields_to_any_other(gpu: Modules) -> None:
    """Its sums are zero, and its reference below that of a query a thousand bandwidths from everything else."""
    from cukde.density.sums import merge

    s = Sample(40, 10, 3)
    options = Options("float32", np.full(40, -1e30), s.X.mean(axis=0, dtype=float), 0.0)
    empty = gpu.f16.take(gpu.passes.prepare(s.X, s.Y, s.h, options), "moments")
    assert not empty.total.any()
    assert not empty.moments.any()
    other = type(empty)(np.full(10, -1e6), np.ones(10), np.ones((10, 3)))
    merged = merge([empty, other], np)
    np.testing.assert_array_equal(merged.reference, -1e6)
    np.testing.assert_array_equal(merged.total, 1)


@pytest.fixture
def values(emulated_device: None) -> ModuleType:
    """The launcher, on the emulated device."""
    from cukde.density.pairs.gpu import values as pairs_values

    return pairs_values


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (127, 7), (128, 16), (129, 17), (40, 30), (40, 64), (40, 65), (5, 130)])
def test_two_terms_keep_17_bits(values: ModuleType, n: int, k: int, dtype: str) -> None:
    rng = np.random.default_rng([n, k])
    V = (rng.standard_normal((n, k)) * 10.0 ** rng.uniform(-30, 30, (n, k))).astype(dtype)
    hi, lo = (in_order(as_float(term)) for term in values.prepare(V))
    columns = values.columns_of(k)
    assert hi.shape == lo.shape == (-(-n // 128) * 128, -(-k // columns) * columns)
    check(np.abs((hi + lo)[:n, :k] - V), 2.0**-17 * np.abs(V), "values")
    check(np.abs(lo[:n, :k]), 2.0**-8 * np.abs(V), "the lower term")
    for term in (hi, lo):
        assert not term[n:].any()
        assert not term[:, k:].any()


def test_the_ends_of_the_range(values: ModuleType) -> None:
    """The largest float32 rounds to infinity in bfloat16, and is kept all the same."""
    V = np.array([[np.finfo(np.float32).max, np.inf, np.nan, 0.0, -np.finfo(np.float32).max]], np.float32)
    hi, lo = (in_order(as_float(term))[0, :5] for term in values.prepare(V))
    assert np.isfinite(hi).all()
    np.testing.assert_allclose((hi + lo)[[0, 3, 4]], V[0, [0, 3, 4]].astype(float), rtol=2.0**-16)
    assert (hi + lo)[1] == np.inf
    assert np.isnan((hi + lo)[2])


def test_any_order_in_memory(values: ModuleType) -> None:
    V = np.random.default_rng(0).standard_normal((60, 9)).astype(np.float32)
    for terms in zip(values.prepare(V), values.prepare(np.asfortranarray(V)), strict=True):
        np.testing.assert_array_equal(*terms)
