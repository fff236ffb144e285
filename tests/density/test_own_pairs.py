"""Passes over pairs that leave out the pair of a row with itself, or with what it has become, against float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from cukde.core import dispatch
from cukde.core.plan import only
from cukde.density.options import LOG_ZERO, Options
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu import few
from cukde.density.pairs.cpu.skipping import passes as skipping_passes
from cukde.density.pairs.cpu.weighted import weighted
from cukde.density.sums import Output, PartialSums
from tests import tolerances
from tests.conftest import Backend
from tests.density.test_centred import bandwidth, clusters, duplicates, outlier

Sums = Callable[..., PartialSums | None]


class Case(NamedTuple):
    """Data, what they have become as queries (None: themselves), and options of the data."""

    X: np.ndarray
    Y: np.ndarray | None
    h: float
    log_weights: np.ndarray | None = None
    factors: np.ndarray | None = None

    @classmethod
    def of(cls, kind: Any, n: int, d: int, dtype: str, *, moved: bool, weighted: bool, factor: float = 0.7) -> Case:
        rng = np.random.default_rng([n, d])
        X = kind(rng, n, d).astype(dtype)
        h = bandwidth(X, factor)
        Y = (X + 0.3 * h * rng.standard_normal(X.shape) / d**0.5).astype(dtype) if moved else None
        log_weights = None
        if weighted:
            w = 10.0 ** -rng.uniform(0, 3, n)
            w[rng.random(n) < 0.2] = 0
            with np.errstate(divide="ignore"):
                log_weights = np.maximum(np.log(w / w.sum()), -1e30)
        return cls(X, Y, h, log_weights)

    def options(self, backend: Backend, precision: str, **options: Any) -> Options:
        arrays = backend.asarray(self.log_weights), backend.asarray(self.factors)
        own = backend.xp.arange(len(self.X))
        return Options(precision, arrays[0], local_factors=arrays[1], own=own, **options)


def others(case: Case, output: Output, *, of_gradient: bool = False) -> tuple[np.ndarray, ...]:
    """By the formulas: exponents (n, n) without the diagonal, factors of the terms, and differences."""
    X = case.X.astype(np.float64)
    steps = X - (X if case.Y is None else case.Y.astype(np.float64))[:, None]
    d = X.shape[1]
    q = (steps**2).sum(axis=-1) / (2 * case.h**2)
    softness = np.ones(len(X)) if case.factors is None else case.factors**-2.0
    q = q * softness
    exponents = -q + 0.5 * d * np.log(softness)
    if case.log_weights is not None:
        exponents = np.where(case.log_weights > LOG_ZERO, exponents + case.log_weights, -np.inf)
    np.fill_diagonal(exponents, -np.inf)
    constant = {"laplace": 1 + d / 2, "laplace_moments": 2 + d / 2}.get(output)
    factors = np.ones_like(q) if constant is None else constant - q
    sizes = np.ones_like(q) if constant is None else constant + q
    if of_gradient and output != "laplace":
        factors, sizes = factors * softness, sizes * softness
    return exponents, q, factors, sizes, steps


def verify(found: Any, case: Case, output: Output, device: str, precision: str, **options: bool) -> None:
    exponents, q, factors, sizes, steps = others(case, output, **options)
    top = exponents.max(axis=1)
    p = np.exp(exponents - top[:, None])
    # The exponent of the largest term, without its weight.
    nearest = np.take_along_axis(q, exponents.argmax(axis=1)[:, None], axis=1)[:, 0]
    allowed = tolerances.log_error(device, precision, nearest)
    tolerances.check(np.abs(found.reference + np.log(found.total) - top - np.log(p.sum(axis=1))), allowed, "log")
    scale = np.exp(found.reference - top)
    if output == "laplace":
        error = np.abs(scale * found.moments[:, 0] - (p * factors).sum(axis=1))
        tolerances.check(error, allowed * (p * sizes).sum(axis=1), output)
    elif output != "sum":
        want = np.einsum("ij,ijk->ik", p * factors, steps)
        error = np.linalg.norm(scale[:, None] * found.moments - want, axis=1)
        lengths = np.linalg.norm(steps, axis=-1)
        tolerances.check(error, allowed * (p * sizes * np.maximum(lengths, case.h)).sum(axis=1), output)
    else:
        assert found.moments is None


def on_host(backend: Backend, sums: Any) -> PartialSums:
    return PartialSums(*(None if a is None else backend.asnumpy(a) for a in sums))


@pytest.fixture
def centred() -> Iterator[None]:
    """Beyond the radius of products about one centre blocks have centres of their own, wherever they can."""
    with only("f64", "centred", "wide", "wide_f64"):
        yield


def passes(backend: Backend, request: pytest.FixtureRequest) -> ModuleType:
    """Passes over pairs; on a GPU blocks have centres of their own wherever they can, though differences are faster.

    Blocks of powers in memory are so small that there are several.
    """
    if backend.name == "emulated":
        request.getfixturevalue("emulated_device")
    if backend.device == "gpu":
        patch = request.getfixturevalue("monkeypatch")
        request.getfixturevalue("centred")
        for engine in ("wide", "wide_f64"):
            patch.setattr(f"cukde.density.pairs.gpu.{engine}._STAGED_ROWS", 128)
            patch.setattr(f"cukde.density.pairs.gpu.{engine}._STAGED_BYTES", 2**18)
    return dispatch.passes("cukde.density.pairs", dispatch.backend(backend.asarray(np.zeros((2, 2)))))


def apart(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Two clusters so far from each other that in many columns each is summed about a centre of its own."""
    return rng.normal(size=(n, d)) + np.where(rng.random((n, 1)) < 0.6, 0, 300 / d**0.5)


KINDS = {"clusters": clusters, "duplicates": duplicates, "isolated": outlier, "apart": apart}
ENGINES = [(d, "float32") for d in (1, 3, 20, 70, 200)] + [(d, "float64") for d in (1, 3, 20, 64, 70)]


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "precision"), ENGINES)
def test_own_pairs_are_left_out(
    backend: Backend, request: pytest.FixtureRequest, d: int, precision: str, kind: str, output: Output
) -> None:
    case = Case.of(KINDS[kind], backend.size(700, 280), d, precision, moved=False, weighted=False)
    of = passes(backend, request)
    sums = of.sums_without_own(backend.asarray(case.X), None, case.h, output, case.options(backend, precision))
    verify(on_host(backend, sums), case, output, backend.device, precision)


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize(("d", "precision"), ENGINES)
def test_of_weighted_rows_that_have_moved(
    backend: Backend, request: pytest.FixtureRequest, d: int, precision: str, output: Output
) -> None:
    case = Case.of(clusters, backend.size(700, 280), d, precision, moved=True, weighted=True)
    of, arrays = passes(backend, request), (backend.asarray(case.X), backend.asarray(case.Y))
    sums = of.sums_without_own(*arrays, case.h, output, case.options(backend, precision))
    verify(on_host(backend, sums), case, output, backend.device, precision)


@pytest.mark.parametrize("of_gradient", [False, True])
@pytest.mark.parametrize("output", ["sum", "moments", "laplace", "laplace_moments"])
@pytest.mark.parametrize("d", [2, 20])
def test_with_local_factors(
    backend: Backend, request: pytest.FixtureRequest, d: int, output: Output, of_gradient: bool
) -> None:
    case = Case.of(clusters, 130, d, "float64", moved=True, weighted=True)
    factors = 2.0 ** np.random.default_rng(d).uniform(-1, 1, 130)
    options = case.options(backend, "float64", of_gradient=of_gradient)
    options = options._replace(
        local_factors=backend.asarray(factors), log_weights=options.log_weights - d * backend.asarray(np.log(factors))
    )
    of, arrays = passes(backend, request), (backend.asarray(case.X), backend.asarray(case.Y))
    sums = on_host(backend, of.sums_without_own(*arrays, case.h, output, options))
    verify(sums, case._replace(factors=factors), output, backend.device, "float64", of_gradient=of_gradient)


@pytest.mark.parametrize("output", ["sum", "moments", "laplace", "laplace_moments"])
@pytest.mark.parametrize("precision", ["ieee", "float64"])
def test_by_differences(backend: Backend, request: pytest.FixtureRequest, precision: str, output: Output) -> None:
    """Beyond the radius of products, and where they are not asked for."""
    dtype = "float64" if precision == "float64" else "float32"
    case = Case.of(outlier, 150, 5, dtype, moved=True, weighted=False)
    of, arrays = passes(backend, request), (backend.asarray(case.X), backend.asarray(case.Y))
    sums = of.sums_without_own(*arrays, case.h, output, case.options(backend, precision))
    verify(on_host(backend, sums), case, output, backend.device, precision)


def test_every_engine_of_a_gpu_leaves_them_out(
    device: Backend, launched: list[str], request: pytest.FixtureRequest
) -> None:
    gpu_passes = passes(device, request)
    engines = [
        (20, "float32", 1, "kde_centred_f16x2"),
        (20, "ieee", 1, "kde_ieee"),
        (70, "float32", 1, "kde_wide_f16x2"),
        (20, "float64", 0.1, "kde_f64_centred"),
        (20, "float64", 1, "kde_f64_products"),
        (70, "float64", 1, "powers_f64"),
        (1, "float64", 1, "kde_f64"),
    ]
    for d, precision, times, kernel in engines:
        case = Case.of(clusters, 140, d, "float32", moved=False, weighted=False)
        launched.clear()
        options = case.options(device, precision)
        gpu_passes.sums_without_own(device.asarray(case.X), None, times * case.h, "sum", options)
        assert kernel in launched


def test_where_leaving_out_pairs_is_faster_a_gpu_has_none(device: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.density.pairs.gpu import passes as gpu_passes

    X = device.asarray(np.random.default_rng(0).standard_normal((300, 3)))
    choice = gpu_passes.skipping_choice
    monkeypatch.setattr(choice, "near", lambda *_, **__: choice.Chosen(object()))
    assert gpu_passes.sums_without_own(X, None, 0.1, "sum", Options("float64", own=device.xp.arange(300))) is None


@pytest.mark.parametrize("output", ["sum", "moments", "laplace", "laplace_moments"])
@pytest.mark.parametrize("n", [2, 40, 200])
@pytest.mark.parametrize("kind", KINDS)
def test_few(kind: str, n: int, output: Output) -> None:
    for weights, d in ((False, 1), (True, 3)):
        case = Case.of(KINDS[kind], n, d, "float64", moved=weights, weighted=weights and n > 2)
        sums = few.sums_without_own(case.X, case.Y, case.h, output, case.options(Backend("numpy"), "float64"))
        verify(sums, case, output, "cpu", "float64")


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("weights", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("d", "precision"), [(1, "float32"), (3, "float64"), (20, "float32"), (20, "float64")])
def test_where_pairs_that_cannot_matter_are_left_out_too(
    d: int, precision: str, kind: str, weights: bool, output: Output
) -> None:
    """The last block has one point; bounds of sums hold without the heaviest point of a block."""
    case = Case.of(KINDS[kind], 641, d, precision, moved=weights, weighted=weights, factor=0.2)
    options = case.options(Backend("numpy"), precision)
    X, _, some = weighted(case.X, None, options)
    Y = case.X if weights and case.Y is None else case.Y
    tolerance = {"float32": 1e-5, "float64": 1e-13}[precision]
    prepared = skipping_passes.prepare(X, Y, case.h, output, some, pairs_frame.frame(X), tolerance, once=True)
    assert not prepared.once
    verify(skipping_passes.run(prepared), case, output, "cpu", precision)


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
def test_where_references_rise(
    device: Backend, launched: list[str], request: pytest.FixtureRequest, output: Output
) -> None:
    """In float64 of more than 64 columns: those of own pairs would be the highest."""
    case = Case.of(clusters, 280, 70, "float64", moved=False, weighted=False)
    squared_radius = float(((case.X - case.X.mean(axis=0)) ** 2).sum(axis=1).max())
    case = case._replace(h=(squared_radius / 1500) ** 0.5)
    of = passes(device, request)
    sums = of.sums_without_own(device.asarray(case.X), None, case.h, output, case.options(device, "float64"))
    verify(on_host(device, sums), case, output, "gpu", "float64")
    assert "raise_references" in launched
