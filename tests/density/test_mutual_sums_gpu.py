"""Sums over two blocks of data at the points of each other, from one pass, against float64; emulated, and on a GPU."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from cukde.density import sums as density_sums
from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.conftest import Backend
from tests.density.samples import SHIFT, TOTAL
from tests.tolerances import Tolerance

SIZES = [(1, 300), (300, 1), (129, 270), (260, 70)]
"""Rows of the blocks: off the edges of tiles and blocks of rows, the one longer and the other."""

ROOT_SHIFT = {
    "exact": Tolerance(1.5e-4, "phi in 11 bits times |z|, and z in 11 bits; measured 1.3e-4"),
    "split": Tolerance(1.5e-4, "z in 11 bits; measured 9e-5"),
    "one-term": Tolerance(4e-4, "the same beside the error of phi; measured 3e-4"),
}
"""Worst error of the merged mean shift: bandwidths times the root of the scaled squared radius (``samples.SHIFT``)."""

MODES = {
    ("float32", False): "exact",
    ("float32", True): "split",
    ("tf32", False): "one-term",
    ("tf32", True): "one-term",
}
"""Whose tolerances hold, by precision and whether only the ratio is wanted."""


@pytest.fixture
def gpu(device: Backend) -> SimpleNamespace:
    """The modules under test, and arrays for them."""
    from cukde.core.gpu import device as core_device
    from cukde.density.pairs.gpu import difference, f16_symmetric, operands, passes as pairs_passes

    return SimpleNamespace(
        hardware=core_device,
        difference=difference,
        symmetric=f16_symmetric,
        operands=operands,
        density=pairs_passes,
        asarray=device.asarray,
        asnumpy=device.asnumpy,
        xp=device.xp,
        emulated=device.name == "emulated",
    )


def blocks(n: int, m: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, float]:
    """Points around 3, and a bandwidth at which points have neighbours whatever the dimension."""
    rng = np.random.default_rng([n, m, d])
    X = (3 + rng.standard_normal((n + m, d))).astype(dtype)
    return X[:n], X[n:], 0.35 * d**0.5


def formula(X: np.ndarray, Y: np.ndarray, h: float) -> PartialSums:
    """All rows of ``X`` at the points of ``Y``, of reference 0."""
    log_total = reference.log_kde(X, Y, h) - reference.log_constant(h, X.shape[1]) + np.log(len(X))
    total = np.exp(log_total)
    return PartialSums(np.zeros(len(Y)), total, total[:, None] * h**2 * reference.score(X, Y, h))


def squared_radius_of(A: np.ndarray, B: np.ndarray, h: float) -> tuple[np.ndarray, float]:
    """Centre of both, and the largest squared distance to it in bandwidths."""
    X = np.concatenate((A, B)).astype(float)
    centre = X.mean(axis=0)
    return centre, float(((X - centre) ** 2).sum(axis=1).max() / h**2)


def computed(
    gpu: SimpleNamespace, A: np.ndarray, B: np.ndarray, h: float, known: bool = True, *, precision: str, ratio: bool
) -> list[PartialSums]:
    """By the function under test, with centre and squared radius or without, on the host."""
    centre, squared_radius = squared_radius_of(A, B, h)
    where = {"centre": gpu.asarray(centre), "squared_radius": squared_radius} if known else {}
    sums = gpu.density.mutual_sums(gpu.asarray(A), gpu.asarray(B), h, Options(precision, **where), ratio=ratio)
    return [PartialSums(*map(gpu.asnumpy, at)) for at in sums]


def check(found: PartialSums, X: np.ndarray, Y: np.ndarray, h: float, total: float, shift: float) -> None:
    """Errors relative to the totals with the other points of ``Y``, which are at least 1."""
    for a, shape in zip(found, ((len(Y),), (len(Y),), Y.shape), strict=True):
        assert a.shape == shape
        assert a.dtype == np.float64
    want = formula(X, Y, h)
    merged = want.total + formula(Y, Y, h).total
    factor = np.exp(found.reference)
    tolerances.check(np.abs(factor * found.total - want.total), total * merged, "total")
    off = np.abs(factor[:, None] * found.moments - want.moments)
    tolerances.check(off, shift * h * merged[:, None], "moments")


def check_both(found: list[PartialSums], A: np.ndarray, B: np.ndarray, h: float, total: float, shift: float) -> None:
    at_A, at_B = found
    check(at_A, B, A, h, total, shift)
    check(at_B, A, B, h, total, shift)


def check_as_of_two_passes(found: list[PartialSums], A: np.ndarray, B: np.ndarray, h: float, precision: str) -> None:
    """Logarithms of the totals themselves, and shifts, however far the points lie."""
    for at, X, Y in ((found[0], B, A), (found[1], A, B)):
        log_total = reference.log_kde(X, Y, h) - reference.log_constant(h, X.shape[1]) + np.log(len(X))
        near = reference.nearness(X, Y, h)
        allowed = tolerances.log_error("gpu", precision, near.exponent)
        tolerances.check(np.abs(at.reference + np.log(at.total) - log_total), allowed, "log total")
        error = at.moments / at.total[:, None] / h - h * reference.score(X, Y, h)
        tolerances.check_score(np.linalg.norm(error, axis=1), allowed, near.reach)


def never(*_: object, **__: object) -> None:
    raise AssertionError("another engine is to take these")


@pytest.mark.parametrize(("n", "m"), SIZES)
@pytest.mark.parametrize("d", [2, 16, 17, 64])
@pytest.mark.parametrize(("precision", "ratio"), MODES)
def test_sums_match_the_formula(
    gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, precision: str, ratio: bool, d: int, n: int, m: int
) -> None:
    monkeypatch.setattr(gpu.density, "pose", never)
    A, B, h = blocks(n, m, d)
    found = computed(gpu, A, B, h, precision=precision, ratio=ratio)
    for at in found:
        np.testing.assert_array_equal(at.reference, 0)
    mode = MODES[precision, ratio]
    # Exact sums are as good as the exponents, which a device makes less well than the emulation that TOTAL is for.
    total = tolerances.DENSITY["gpu", "float32"].value if mode == "exact" and not gpu.emulated else TOTAL[mode].value
    check_both(found, A, B, h, total, ROOT_SHIFT[mode].value * squared_radius_of(A, B, h)[1] ** 0.5)


@pytest.mark.parametrize(("n", "m"), [*SIZES, (1, 1), (128, 128), (257, 193)])
def test_equal_points_count_each_other_once(gpu: SimpleNamespace, n: int, m: int) -> None:
    A, B = np.full((n, 16), 7.0, np.float32), np.full((m, 16), 7.0, np.float32)
    at_A, at_B = computed(gpu, A, B, 1.0, precision="float32", ratio=True)
    np.testing.assert_allclose(at_A.total, m, rtol=1e-6)
    np.testing.assert_allclose(at_B.total, n, rtol=1e-6)
    for at in (at_A, at_B):
        np.testing.assert_allclose(at.moments, 0, atol=1e-4)


@pytest.mark.parametrize("chunk", [64, 320])
@pytest.mark.parametrize("d", [16, 20, 33, 64])
def test_every_pair_is_summed_once_whatever_the_chunks(gpu: SimpleNamespace, d: int, chunk: int) -> None:
    """And in every layout, the last block of rows reaching into the other block of data or not."""
    n, m = 300, 400
    A, B = np.full((n, d), 7.0, np.float32), np.full((m, d), 7.0, np.float32)
    operand = gpu.operands.prepare_two(*map(gpu.asarray, (A, B, np.zeros(d))), 100.0, split=True)
    for of in gpu.symmetric.every_layout(gpu.operands.depth_of(d), 3):
        S, _ = gpu.symmetric.launch(operand, own_rows=384, chunk=chunk, tiling=of)
        np.testing.assert_allclose(gpu.asnumpy(S)[:n] / 2**13, m, rtol=1e-4)
        np.testing.assert_allclose(gpu.asnumpy(S)[384 : 384 + m] / 2**13, n, rtol=1e-4)
        assert not gpu.asnumpy(S)[n:384].any()
        assert not gpu.asnumpy(S)[384 + m :].any()


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_blocks_so_far_apart_that_no_term_is_left(gpu: SimpleNamespace, precision: str, ratio: bool) -> None:
    A, B, _ = blocks(70, 150, 2)
    B = B + np.float32(20)
    for at in computed(gpu, A, B, 1.0, precision=precision, ratio=ratio):
        for a in at:
            np.testing.assert_array_equal(a, 0)


@pytest.mark.parametrize(("precision", "ratio"), MODES)
def test_merged_with_the_blocks_themselves_they_are_the_sums_of_the_whole(
    gpu: SimpleNamespace, precision: str, ratio: bool
) -> None:
    A, B, h = blocks(210, 140, 5)
    parts = [gpu.asarray(part) for part in (A[:130], A[130:], B)]
    X = np.concatenate((A, B))
    centre, squared_radius = squared_radius_of(A, B, h)
    options = Options(precision, centre=gpu.asarray(centre), squared_radius=squared_radius)
    sums = [[gpu.density.partial_sums(part, None, h, "moments", options, ratio=ratio)] for part in parts]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for of, at in zip((i, j), gpu.density.mutual_sums(parts[i], parts[j], h, options, ratio=ratio), strict=True):
            sums[of].append(at)
    merged = [density_sums.merge(of, gpu.xp) for of in sums]
    total, moments = (np.concatenate([gpu.asnumpy(one[field]) for one in merged]) for field in (1, 2))
    whole = gpu.density.partial_sums(gpu.asarray(X), None, h, "moments", options, ratio=ratio)
    # The same exponents and products, rounded the same; what differs is the order of float32 sums.
    np.testing.assert_allclose(total, gpu.asnumpy(whole.total), rtol=2e-5)
    shift = gpu.asnumpy(whole.moments) / gpu.asnumpy(whole.total)[:, None]
    np.testing.assert_allclose(moments / total[:, None] / h, shift / h, atol=2e-5)
    want = formula(X, X, h)
    mode = MODES[precision, ratio]
    off = np.abs(moments / total[:, None] - want.moments / want.total[:, None]) / h
    tolerances.check(off, np.asarray(ROOT_SHIFT[mode].value * squared_radius**0.5), "shift")


ORDERED = [
    pytest.param("float64", "float64", 3, 1.0, False, id="float64"),
    pytest.param("float64", "float64", 3, 1.0, True, id="float64-ratio"),
    pytest.param("float64", "float64", 70, 1.0, True, id="float64-d70"),
    pytest.param("float32", "ieee", 3, 1.0, True, id="ieee"),
    pytest.param("float32", "float32", 1, 1.0, True, id="d1"),
    pytest.param("float32", "float32", 65, 1.0, True, id="d65"),
    pytest.param("float32", "float32", 16, 0.2, False, id="exact-beyond-the-fast-form"),
    pytest.param("float32", "float32", 16, 0.1, True, id="beyond-the-squared_radius"),
]
"""Dtype, precision, dimensions, factor of the bandwidth, and whether the ratio is wanted: what two passes take."""


@pytest.mark.parametrize(("dtype", "precision", "d", "narrower", "ratio"), ORDERED)
def test_what_the_one_pass_does_not_take_is_two(
    gpu: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    precision: str,
    d: int,
    narrower: float,
    ratio: bool,
) -> None:
    monkeypatch.setattr(gpu.symmetric, "launch", never)
    A, B, h = blocks(90, 140, d, dtype)
    h *= narrower
    found = computed(gpu, A, B, h, precision=precision, ratio=ratio)
    if d == 65:  # in many dimensions sums of which only the ratio is wanted have tolerances of their own
        check_both(found, A, B, h, TOTAL["split"].value, SHIFT["split"].value)
        return
    check_as_of_two_passes(found, A, B, h, precision)


@pytest.mark.parametrize(("offset", "beyond"), [(0.0, False), (60.0, True)])
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_radius_that_the_device_finds(gpu: SimpleNamespace, precision: str, offset: float, beyond: bool) -> None:
    """Without a centre, too; of blocks far apart the distance of the means is what carries them beyond the limit."""
    A, B, h = blocks(140, 210, 4)
    B = B + np.float32(offset)
    found = computed(gpu, A, B, h, known=False, precision=precision, ratio=True)
    if beyond:
        check_as_of_two_passes(found, A, B, h, "ieee")
        return
    mode = MODES[precision, True]
    check_both(found, A, B, h, TOTAL[mode].value, ROOT_SHIFT[mode].value * squared_radius_of(A, B, h)[1] ** 0.5)
    for at in found:
        np.testing.assert_array_equal(at.reference, 0)


def test_without_a_radius_there_are_two_passes(gpu: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a stream is captured nothing may wait for it."""
    monkeypatch.setattr(gpu.symmetric, "launch", never)
    monkeypatch.setattr("cukde.core.gpu.device.capturing", lambda: True)
    A, B, h = blocks(70, 90, 16)
    found = computed(gpu, A, B, h, known=False, precision="float32", ratio=False)
    check_both(found, A, B, h, tolerances.DENSITY["gpu", "float32"].value, SHIFT["exact"].value)


def test_blocks_of_two_types(gpu: SimpleNamespace) -> None:
    A, B, h = blocks(70, 200, 6, "float64")
    found = computed(gpu, A.astype(np.float32), B, h, precision="float32", ratio=True)
    shift = ROOT_SHIFT["split"].value * squared_radius_of(A, B, h)[1] ** 0.5
    check_both(found, A.astype(np.float32), B, h, TOTAL["split"].value, shift)


@pytest.mark.parametrize("d", [16, 32, 48, 64])
@pytest.mark.parametrize(
    ("rows", "columns"), [(128, 128), (128, 2**20), (2**20, 128), (16384, 65536), (2**20, 2**20), (2**22, 2**29 - 8192)]
)
def test_split_covers_every_column_and_bounds_what_a_block_adds_up(
    gpu: SimpleNamespace, rows: int, columns: int, d: int
) -> None:
    for terms in (1, 3):
        of = gpu.symmetric.layout(d, terms)
        cut = gpu.symmetric.split_mutual(rows, columns, of, 132)
        assert cut.chunk % 64 == 0
        assert 64 <= cut.chunk <= 8192
        row_blocks, chunks = cut.grid
        assert (row_blocks - 1) * of.rows < rows <= row_blocks * of.rows
        assert (chunks - 1) * cut.chunk < columns <= chunks * cut.chunk
        assert chunks <= 65535
        if rows * columns >= 2**26:
            assert row_blocks * chunks >= 132
