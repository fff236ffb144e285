"""Outputs "laplace" and "laplace_moments" of every engine over pairs: both sums of one pass, and their gradient's.

Test bodies run on every backend: the CPU, the CUDA kernels emulated on the host, and a GPU where there is one.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from cukde.core import dispatch
from cukde.density import backends
from cukde.density.arguments import prepare
from cukde.density.options import LOG_ZERO, Options
from cukde.density.problem import Problem
from cukde.density.sums import Epilogue, Output, PartialSums, merge
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density import laplace_sums
from tests.density.samples import Sample, verify


class Case(NamedTuple):
    """One setting: the bandwidth in deviations of the data, and how far queries lie from them."""

    n: int
    m: int
    d: int
    h: float
    away: float = 0.0
    weighted: bool = False
    precision: str | None = None  # that of the dtype


CASES = {
    "few-pairs": Case(90, 40, 3, 0.5, weighted=True),
    "few-pairs-far": Case(90, 40, 2, 0.05, away=30.0),
    "product": Case(700, 110, 3, 0.6),
    "product-weighted": Case(600, 130, 17, 2.5, weighted=True),
    "double-product": Case(600, 120, 4, 0.05, weighted=True),
    "differences": Case(500, 140, 5, 0.4, weighted=True, precision="ieee"),
    "far": Case(500, 140, 6, 0.3, away=20.0),
    "line": Case(300, 260, 1, 0.3, weighted=True),
}


def draw(case: Case, dtype: str, n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    rng = np.random.default_rng([n, m, case.d])
    X = (1 + rng.standard_normal((n, case.d))).astype(dtype)
    Y = (1 + case.away + rng.standard_normal((m, case.d))).astype(dtype)
    w = None
    if case.weighted:
        w = 10.0 ** -rng.uniform(0, 6, n)
        w[::7] = 0
    return X, Y, w


def on_host(backend: Backend, sums: PartialSums) -> PartialSums:
    return PartialSums(*(None if a is None else backend.asnumpy(a) for a in sums))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_every_engine(backend: Backend, name: str, dtype: str) -> None:
    case = CASES[name]
    X, Y, w = draw(case, dtype, backend.size(case.n, 90), backend.size(case.m, 40))
    precision = case.precision or dtype
    allowed = tolerances.log_error(backend.device, precision, reference.nearness(X, Y, case.h, w).exponent)
    problem, _ = prepare(*map(backend.asarray, (X, Y)), case.h, backend.asarray(w), case.precision)
    laplace_sums.check(on_host(backend, problem.sums("laplace")), X, Y, case.h, w, allowed)
    laplace_sums.check_moments(on_host(backend, problem.sums("laplace_moments")), X, Y, case.h, w, allowed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_they_are_at_the_data_themselves(backend: Backend, dtype: str) -> None:
    """As many as for which output "moments" would take each pair once."""
    X, _, _ = draw(CASES["product"], dtype, backend.size(600, 90), 1)
    allowed = tolerances.log_error(backend.device, dtype, np.zeros(len(X)))
    problem, _ = prepare(data := backend.asarray(X), data, 0.6)
    laplace_sums.check(on_host(backend, problem.sums("laplace")), X, X, 0.6, None, allowed)
    laplace_sums.check_moments(on_host(backend, problem.sums("laplace_moments")), X, X, 0.6, None, allowed)


def test_moments_are_the_gradient_of_the_corrected_sum(backend: Backend) -> None:
    """With respect to the query, times h^2: by central differences."""
    X, Y, _ = draw(Case(50, 4, 3, 0.7), "float64", 50, 4)
    step, h = 2e-4, 0.7
    moved = np.stack([Y[:, None] + sign * step * np.eye(3) for sign in (-1, 1)])
    low, high = reference.laplace(X, moved.reshape(-1, 3), h)[0].reshape(2, 4, 3)
    problem, _ = prepare(*map(backend.asarray, (X, Y)), h)
    sums = on_host(backend, problem.sums("laplace_moments"))
    got = np.exp(sums.reference + problem.log_constant)[:, None] * sums.moments
    np.testing.assert_allclose(got, h**2 * (high - low) / (2 * step), rtol=1e-5, atol=1e-8)


def test_moments_over_images_are_the_gradient_in_a_domain(backend: Backend) -> None:
    h, step, bounds, periods = 0.12, 1e-4, ((0.0, 1.0), None), (None, 1.0)
    rng = np.random.default_rng(7)
    X, Y = rng.random((40, 2)), rng.uniform(0.05, 0.95, (6, 2))
    moved = np.stack([Y[:, None] + sign * step * np.eye(2) for sign in (-1, 1)]).reshape(-1, 2)
    at = reference.in_domain(X, moved, h, bounds, periods)
    low, high = (np.exp(at.log) * at.laplace).reshape(2, 6, 2)
    problem, _ = prepare(*map(backend.asarray, (X, Y)), h, bounds=bounds, periods=periods)
    sums = on_host(backend, problem.sums("laplace_moments"))
    got = np.exp(sums.reference + problem.log_constant)[:, None] * sums.moments
    np.testing.assert_allclose(got, h**2 * (high - low) / (2 * step), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("output", ["laplace", "laplace_moments"])
def test_blocks_merge_and_one_without_weight_adds_nothing(backend: Backend, output: Output) -> None:
    X, Y, w = draw(Case(90, 25, 3, 0.7, weighted=True), "float64", 90, 25)
    assert w is not None
    w[30:60] = 0
    log_w = np.where(w > 0, np.log(np.maximum(w, 1e-300)), 10 * LOG_ZERO)
    data, queries, logs, centre = map(backend.asarray, (X, Y, log_w, X.mean(axis=0)))
    passes = backends.pairs(dispatch.backend(data))

    def sums(first: int, last: int) -> PartialSums:
        options = Options("float64", logs[first:last], centre)
        found: PartialSums = passes.partial_sums(data[first:last], queries, 0.7, output, options)
        return found

    nothing = on_host(backend, sums(30, 60))
    assert nothing.moments is not None
    assert nothing.moments.shape == (25, 1 if output == "laplace" else 3)
    assert ((nothing.total == 0) | (nothing.reference < LOG_ZERO)).all()
    merged = on_host(backend, merge([sums(0, 30), sums(30, 60), sums(60, 90)], backend.xp))
    allowed = tolerances.log_error(backend.device, "float64", reference.nearness(X, Y, 0.7, w).exponent)
    compare: Any = laplace_sums.check if output == "laplace" else laplace_sums.check_moments
    compare(merged, X, Y, 0.7, w, allowed, size=w.sum())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_sums_give_the_positive_density(backend: Backend, dtype: str) -> None:
    """Of a mixture with far queries, where L is below -T."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.standard_normal((60, 2)), 8 + 0.3 * rng.standard_normal((60, 2))]).astype(dtype)
    Y = rng.uniform(-4, 12, (50, 2)).astype(dtype)
    want, condition = reference.log_positive(X, Y, 0.4)
    problem, _ = prepare(*map(backend.asarray, (X, Y)), 0.4)
    sums = on_host(backend, problem.sums("laplace"))
    assert sums.moments is not None
    steps = np.arcsinh(sums.moments[:, 0] / sums.total - 1)
    got = sums.reference + np.log(sums.total) + problem.log_constant + steps
    allowed = tolerances.log_error(backend.device, dtype, reference.nearness(X, Y, 0.4).exponent)
    tolerances.check(np.abs(got - want), allowed * condition, "log of the positive density")


def test_leave_one_out_takes_own_terms_from_both(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Own terms have the factor 1 + d/2 there, and none among moments; a lonely row is summed again."""
    inner = Problem.sums_without_own
    monkeypatch.setattr(Problem, "sums_without_own", lambda p, output: inner(p, output) if len(p.X) <= 7 else None)
    X, _, w = draw(Case(60, 1, 3, 0.7, weighted=True), "float64", 60, 1)
    X[5] += 9
    problem, _ = prepare(data := backend.asarray(X), data, 0.7, backend.asarray(w), leave_one_out=True)
    found = on_host(backend, problem.sums("laplace")), on_host(backend, problem.sums("laplace_moments"))
    for i in range(0, 60, 3):
        case = np.delete(X, i, axis=0), X[i : i + 1], 0.7, np.delete(w, i)
        rows = [PartialSums(*(a[i : i + 1] for a in sums)) for sums in found]
        allowed = 2 * tolerances.log_error(backend.device, "float64", reference.nearness(*case).exponent)
        laplace_sums.check(rows[0], *case, allowed)
        laplace_sums.check_moments(rows[1], *case, allowed)


BEYOND = 1e6
"""A scaled squared radius that is left to differences."""


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test, on the emulated device, and the names of the kernels that they launch."""
    from cukde.core.gpu import arrays
    from cukde.core.gpu.launch import Specialisation
    from cukde.density.pairs.gpu import passes

    names: list[str] = []
    launch = Specialisation.launch

    def noted(self: Specialisation, *args: object) -> None:
        names.append(self.name)
        launch(self, *args)

    monkeypatch.setattr(Specialisation, "launch", noted)
    return SimpleNamespace(passes=passes, arrays=arrays, launched=names)


@pytest.mark.parametrize(("d", "weighted"), [(1, False), (7, True), (17, False), (33, True), (70, False)])
@pytest.mark.parametrize("output", ["laplace", "laplace_moments"])
@pytest.mark.parametrize("precision", ["ieee", "float64"])
def test_sums_by_differences(gpu: SimpleNamespace, precision: str, output: Output, d: int, weighted: bool) -> None:
    """In splits of the data, of float64 data in either arithmetic, and far from the origin."""
    s = Sample(520, 40, d, weighted=weighted, dtype="float64")
    s.X += 1e3
    s.Y += 1e3
    sums = gpu.passes.partial_sums(s.X, s.Y, s.h, output, Options(precision, s.log_weights, squared_radius=BEYOND))
    assert sums.moments.shape == (40, d if output == "laplace_moments" else 1)
    assert "merge_splits" in gpu.launched
    assert f"{output}_{'f64' if precision == 'float64' else 'ieee'}" in gpu.launched
    verify(s, output, sums, tolerances.DENSITY["gpu", precision].value)


@pytest.mark.parametrize("d", [1, 2, 3, 70])
@pytest.mark.parametrize("precision", ["float32", "tf32", "ieee", "float64"])
def test_moments_are_summed_by_differences_in_every_precision(gpu: SimpleNamespace, precision: str, d: int) -> None:
    s = Sample(150, 40, d, dtype="float64" if precision == "float64" else "float32")
    options = Options(precision, None, s.X.mean(axis=0, dtype=float), 50.0)
    passes = backends.passes(gpu.arrays, d, options)
    sums = passes.partial_sums(s.X, s.Y, s.h, "laplace_moments", options)
    assert [name for name in gpu.launched if name != "merge_splits"] == [
        "laplace_moments_f64" if precision == "float64" else "laplace_moments_ieee"
    ]
    verify(s, "laplace_moments", sums, tolerances.DENSITY["gpu", "float64" if precision == "float64" else "ieee"].value)


ENGINES = {
    "f16x2": ("float32", 5, 50.0, "laplace_f16x2"),
    "f16": ("tf32", 16, 50.0, "laplace_f16"),
    "wide": ("float32", 70, 50.0, "laplace_wide_f16x2"),
    "f64": ("float64", 5, 50.0, "laplace_f64_products"),
    "wide_f64": ("float64", 70, 50.0, "powers_f64"),
    "differences": ("ieee", 5, 50.0, "laplace_ieee"),
}


@pytest.mark.parametrize("log", [False, True], ids=["density", "log"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("engine", ENGINES)
def test_positive_density(gpu: SimpleNamespace, engine: str, weighted: bool, log: bool) -> None:
    precision, d, squared_radius, kernel = ENGINES[engine]
    s = Sample(150, 70, d, weighted=weighted, dtype="float64" if precision == "float64" else "float32")
    options = Options(precision, s.log_weights, s.X.mean(axis=0, dtype=float), squared_radius)
    epilogue = Epilogue(s.log_scale, log, s.X.dtype)
    got = gpu.passes.laplace_density(s.X, s.Y, s.h, options, epilogue, positive=True)
    assert kernel in gpu.launched
    want, condition = reference.log_positive(s.X, s.Y, s.h, s.w)
    exponent = reference.nearness(s.X, s.Y, s.h, s.w).exponent
    allowed = condition * tolerances.log_error("gpu", precision, exponent)
    (tolerances.check_log if log else tolerances.check_density)(got, want, allowed, "positive density")


@pytest.mark.parametrize("reach", [24.0, 1e3, 1e15])
def test_logarithms_of_positive_densities_are_finite_far_away(gpu: SimpleNamespace, reach: float) -> None:
    """At so many bandwidths from the middle: where exponentials underflow, and where differences take all pairs."""
    s = Sample(150, 40, 3)
    directions = np.random.default_rng(0).standard_normal((20, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    s.Y[::2] = 3 + reach * s.h * directions
    options = Options("float32", None, np.full(3, 3.0), 1.1 * reach**2)
    got = gpu.passes.laplace_density(s.X, s.Y, s.h, options, Epilogue(s.log_scale, True, s.X.dtype), positive=True)
    assert ("laplace_f16x2" in gpu.launched) == (reach < 1e3)
    want, condition = reference.log_positive(s.X, s.Y, s.h)
    exponent = reference.nearness(s.X, s.Y, s.h).exponent
    tolerances.check_log(got, want, condition * tolerances.log_error("gpu", "float32", exponent))
