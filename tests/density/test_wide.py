"""The engine of many dimensions against float64: edges and blocks, emulated; and data that reach far, on a GPU too."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference
from tests.conftest import Backend
from tests.density.samples import OUTPUTS, SHIFT, Sample, verify
from tests.density.test_f16 import ALLOWED
from tests.tolerances import MEAN_SHIFT, check, check_score, log_error


def modules(patch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The modules under test; blocks of powers so small that there are several."""
    from cukde.density.pairs.gpu import passes as pairs_passes, wide

    patch.setattr(wide, "_STAGED_ROWS", 128)
    patch.setattr(wide, "_STAGED_BYTES", 2**17)
    return SimpleNamespace(wide=wide, density=pairs_passes, monkeypatch=patch)


@pytest.fixture
def gpu(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return modules(monkeypatch)


@pytest.fixture
def far(device: Backend, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    return SimpleNamespace(device=device, **vars(modules(monkeypatch)))


FORMS = {"one-term": "tf32", "two-terms": "float32"}  # precision, which chooses the terms of a point


def allowed(form: str) -> float:
    return ALLOWED[1 if form == "one-term" else 3]


def sums(
    gpu: SimpleNamespace, s: Sample, output: str, form: str, *, k: int = 5, ratio: bool = False, **options: Any
) -> Any:
    return gpu.density.partial_sums(
        s.X,
        None if s.Y is s.X else s.Y,
        s.h,
        output,
        Options(FORMS[form], **{"log_weights": s.log_weights, "squared_radius": 50.0} | options),
        values=s.V[:, :k] if output == "values" else None,
        ratio=ratio,
    )


def itself(n: int, d: int, **options: Any) -> Sample:
    """A sample whose queries are the data."""
    s = Sample(n, 1, d, **options)
    s.Y = s.X
    return s


@pytest.mark.parametrize("n", [1, 127, 128, 129, 300])
def test_mean_shift_of_the_data(gpu: SimpleNamespace, n: int) -> None:
    s = itself(n, 70)
    of = sums(gpu, s, "moments", "two-terms", ratio=True)
    shift = of.moments / of.total[:, None] / s.h
    check(np.abs(shift - s.h * reference.score(s.X, s.X, s.h)), np.asarray(SHIFT["split"].value), "shift")


@pytest.mark.parametrize("output", ["sum", "laplace", "moments"])
def test_what_has_no_weight_counts_nowhere(gpu: SimpleNamespace, output: str) -> None:
    """Of all data one has a weight, and it is the nearest of few queries."""
    s, alone = Sample(150, 40, 70, weighted=True), Sample(150, 40, 70)
    s.w = np.where(np.arange(150) == 130, 2.0, 0.0)
    alone.X = s.X[130:131]
    verify(alone, output, sums(gpu, s, output, "two-terms"), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_points_in_float64(gpu: SimpleNamespace, output: str) -> None:
    """They are rounded once they are centred, so that an offset costs nothing; sums are those of precision float32."""
    s = Sample(150, 40, 70, dtype="float64")
    s.X += 1e6
    s.Y += 1e6
    verify(s, output, sums(gpu, s, output, "two-terms"), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_radius_need_not_be_known(gpu: SimpleNamespace, output: str) -> None:
    s = Sample(150, 40, 70)
    verify(s, output, sums(gpu, s, output, "two-terms", squared_radius=None), allowed("two-terms"))


@pytest.mark.parametrize("output", OUTPUTS)
def test_what_is_no_number_spoils_its_sums(gpu: SimpleNamespace, output: str) -> None:
    """A query those of its own, a datum all."""
    s = Sample(150, 40, 70)
    s.Y[7, 3] = np.nan
    total = sums(gpu, s, output, "two-terms", squared_radius=None).total
    np.testing.assert_array_equal(np.isnan(total), np.arange(40) == 7)
    s.X[30, 0] = np.nan
    assert np.isnan(sums(gpu, s, output, "two-terms", squared_radius=None).total).all()


@pytest.mark.parametrize(
    ("form", "layout"),
    [("two-terms", (1, 32, 4, 1)), ("two-terms", (2, 32, 3, 1)), ("one-term", (2, 64, 2, 1))],
)
def test_layouts_that_are_not_chosen_are_right(
    gpu: SimpleNamespace, form: str, layout: tuple[int, int, int, int]
) -> None:
    """Operands of 96 columns where that is enough."""
    of = gpu.wide.Layout(*layout)
    gpu.monkeypatch.setattr(gpu.wide, "layout", lambda task: of)
    for s in (Sample(200, 150, 70), itself(200, 70)):
        verify(s, "moments", sums(gpu, s, "moments", form), allowed(form))


@pytest.mark.parametrize(("of_references", "of_moments", "depth"), [(64, 32, 128), (32, 64, 128), (32, 32, 96)])
def test_operands_are_whole_steps_of_both_passes(
    gpu: SimpleNamespace, of_references: int, of_moments: int, depth: int
) -> None:
    depths, prepare = set(), gpu.wide.prepare
    layouts = {64: gpu.wide.Layout(1, 64, 2, 2), 32: gpu.wide.Layout(1, 32, 4, 1)}

    def noted(*args: Any, **options: Any) -> Any:
        operand = prepare(*args, **options)
        depths.add(operand.hi.shape[1])
        return operand

    gpu.monkeypatch.setattr(gpu.wide, "prepare", noted)
    gpu.monkeypatch.setattr(
        gpu.wide, "layout", lambda task: layouts[of_references if task.output == "sum" else of_moments]
    )
    s = Sample(150, 40, 70)
    verify(s, "moments", sums(gpu, s, "moments", "two-terms"), allowed("two-terms"))
    assert depths == {depth}


def test_no_queries(gpu: SimpleNamespace) -> None:
    s = Sample(150, 40, 70)
    none = s.Y[:0]
    assert cukde.kde(s.X, none, s.h).shape == cukde.laplace_kde(s.X, none, s.h).shape == (0,)
    assert cukde.score(s.X, none, s.h).shape == (0, 70)
    assert cukde.kernel_sum(s.X, s.V[:, :65], none, s.h).shape == (0, 65)


TINY = np.finfo(np.float64).tiny  # sums far from all data leave the range of float64


def clusters(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    centres, widths = 3 * rng.standard_normal((7, d)), np.exp(rng.uniform(-2, 1, 7))
    of = rng.integers(7, size=n)
    return centres[of] + widths[of, None] * rng.standard_normal((n, d))


def nested(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    outer, inner = 20 * rng.standard_normal((5, d)), rng.standard_normal((30, d))
    of = rng.integers(30, size=n)
    return outer[of % 5] + inner[of] + 0.05 * rng.standard_normal((n, d))


def curve(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    t, waves = rng.uniform(size=(n, 1)), rng.uniform(1, 9, (d, 2))
    return np.sin(t * waves[:, 0] + waves[:, 1]) + 0.02 * rng.standard_normal((n, d))


def cauchy(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, d)) + 0.1 * rng.standard_cauchy((n, d))


def duplicates(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n // 20, d))[rng.integers(n // 20, size=n)]


def outlier(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.standard_normal((n, d))
    X[n // 3] = 1e5
    return X


def pair_of_outliers(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Neighbours of each other, on one side."""
    X = rng.standard_normal((n, d))
    X[[5, n - 5], 0] += 1e5
    return X


def apart(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Two clusters, 1,000 times as far apart as they are wide."""
    X = rng.standard_normal((n, d))
    X[:, 0] += np.where(np.arange(n) % 2, 1000, 0)
    return X


def offset(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, d)) + rng.uniform(1e3, 1e4, d)


DATA = {
    make.__name__: make
    for make in (clusters, nested, curve, cauchy, duplicates, outlier, pair_of_outliers, apart, offset)
}


def sample(data: str, n: int, m: int, d: int, factor: float, *, itself: bool = False, dtype: str = "float32") -> Sample:
    """Data, queries of the same population, some next to the data and some far beyond, and Silverman's bandwidth."""
    s = Sample(n, m, d, dtype=dtype)
    rng = np.random.default_rng([n, d])
    s.X = DATA[data](n + m, d, rng)
    spread = float(np.median(s.X.std(axis=0)))
    s.h = factor * spread * (4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4))
    s.X, s.Y = s.X[:n].astype(dtype), s.X[n:].astype(dtype)
    if itself:
        s.Y = s.X
        return s
    near = np.arange(m) % 3 == 0
    step = s.h / d**0.5 * rng.standard_normal((near.sum(), d))
    s.Y[near] = (s.X[rng.integers(n, size=near.sum())] + step).astype(dtype)
    s.Y[1::17] *= 100
    return s


def passed(far: SimpleNamespace, s: Sample, output: str, precision: str = "float32", **options: Any) -> PartialSums:
    device = far.device
    sums = far.density.partial_sums(
        device.asarray(s.X),
        None if s.Y is s.X else device.asarray(s.Y),
        s.h,
        output,
        Options(precision, log_weights=device.asarray(s.log_weights)),
        values=device.asarray(np.ascontiguousarray(s.V[:, :5])) if output == "values" else None,
        **options,
    )
    return PartialSums(*(None if a is None else device.asnumpy(a) for a in sums))


def verify_far(s: Sample, output: str, sums: PartialSums, precision: str = "float32") -> None:
    """Each query by what is promised of it."""
    of = reference.nearness(s.X, s.Y, s.h, s.w)
    allowed = log_error("gpu", precision, of.exponent)
    log_total = reference.log_kde(s.X, s.Y, s.h, s.w) - s.log_scale
    check(np.abs(sums.reference + np.log(sums.total) - log_total), allowed, "log total")
    if output == "moments":
        error = sums.moments / sums.total[:, None] / s.h - s.h * reference.score(s.X, s.Y, s.h, s.w)
        check_score(np.linalg.norm(error, axis=1), allowed, of.reach)
    if output == "laplace":
        log_scale, total, size = reference.scaled_laplace(s.X, s.Y, s.h, s.w)
        # Relative to the density of the sums themselves, which may be off by more than one far from all data.
        scale = np.exp(log_total - (log_scale - s.log_scale))
        error = scale * sums.moments[:, 0] / sums.total - total
        check(np.abs(error), allowed * size, "Laplace sum")
    if output == "values":
        total, size = reference.kernel_sum(s.X, s.V[:, :5], s.Y, s.h)
        check(np.abs(np.exp(sums.reference)[:, None] * sums.moments - total), allowed[:, None] * size + TINY, "values")


@pytest.mark.parametrize("factor", [0.1, 0.25, 3.0])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("data", DATA)
def test_far_queries(far: SimpleNamespace, data: str, output: str, factor: float) -> None:
    s = sample(data, far.device.size(300, 200), 70, 96, factor)
    verify_far(s, output, passed(far, s, output))


@pytest.mark.parametrize("factor", [0.25, 3.0])
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("data", DATA)
def test_far_data_at_themselves(far: SimpleNamespace, data: str, output: str, factor: float) -> None:
    s = sample(data, far.device.size(300, 200), 1, 65, factor, itself=True)
    verify_far(s, output, passed(far, s, output))


@pytest.mark.parametrize("factor", [0.25, 1.0])
@pytest.mark.parametrize("data", DATA)
def test_mean_shift_of_far_data(far: SimpleNamespace, data: str, factor: float) -> None:
    """Rounded like points of the size that products are good enough for, however far the data reach."""
    s = sample(data, far.device.size(300, 200), 1, 200, factor, itself=True)
    sums = passed(far, s, "moments", ratio=True)
    error = np.linalg.norm(sums.moments / sums.total[:, None] / s.h - s.h * reference.score(s.X, s.X, s.h), axis=1)
    size = np.minimum(32.0, np.linalg.norm(s.X - s.X.mean(axis=0), axis=1) / s.h)
    check(error, np.maximum(1, size) * MEAN_SHIFT.value, "shift")


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("data", ["clusters", "curve", "pair_of_outliers", "apart"])
@pytest.mark.parametrize("form", ["one term", "float64", "weights"])
def test_other_forms(far: SimpleNamespace, form: str, data: str, output: str) -> None:
    """Points in one term, which are promised less; given in float64; and weights of thirty decades, some zero."""
    s = sample(data, 200, 40, 70, 0.25, dtype="float64" if form == "float64" else "float32")
    if form == "weights" and output != "values":
        s.w = np.where(np.arange(200) % 5 == 4, 0, 10.0 ** -np.random.default_rng(0).uniform(0, 30, 200))
    precision = "tf32" if form == "one term" else "float32"
    verify_far(s, output, passed(far, s, output, precision), precision)


def test_the_same_bits_on_every_run(far: SimpleNamespace) -> None:
    """Of pairs by differences, too."""
    s = sample("apart", 300, 1, 70, 0.25, itself=True)
    for first, second in zip(passed(far, s, "moments"), passed(far, s, "moments"), strict=True):
        np.testing.assert_array_equal(first, second)
