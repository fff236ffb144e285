"""The passes that benchmarks measure against: they compile without spills; their sums are the oracle's."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from cukde.core.gpu import compile as core_compile
from cukde.density.sums import Output
from tests import reference
from tests.compilation import ARCHITECTURES, LIKE_80, compile_for, resources
from tests.conftest import Backend, launcher
from tests.density.samples import Sample, verify
from tests.tolerances import WMMA, check, check_score

ALLOWED = 1e-2  # 11 bits of z, r |z| 2^-12 of an exponent


@pytest.fixture
def tf32() -> ModuleType:
    return launcher("density.study_tf32")


@pytest.fixture
def launched_tf32(tf32: ModuleType, device: Backend, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if device.name == "emulated":
        from cukde.density.pairs.gpu import finish

        monkeypatch.setattr(tf32, "cp", finish.cp)
    return tf32


@pytest.mark.kernels
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a >= 80 and a not in LIKE_80])
def test_kernels_of_tf32_compile_without_spills(tf32: ModuleType, architecture: int) -> None:
    for kernel in set(tf32.specialisations()):
        taken = resources(architecture, kernel.stem, kernel.defines, kernel.name)
        assert taken.spills == taken.stack == 0
        assert taken.shared <= 48 * 1024


@pytest.mark.parametrize("itself", [False, True], ids=["queries", "themselves"])
@pytest.mark.parametrize("d", [1, 5, 16, 40])
@pytest.mark.parametrize("output", ["sum", "laplace", "moments", "values"])
def test_sums_by_tf32_match_the_reference(
    launched_tf32: ModuleType, device: Backend, output: Output, d: int, itself: bool
) -> None:
    s = Sample(150, 70, d, weighted=output != "values")
    if itself:
        s.Y = s.X
    on, k = device.asarray, 5
    Y = None if itself else on(s.Y)
    values = on(s.V[:, :k]) if output == "values" else None
    sums = launched_tf32.run(on(s.X), Y, s.h, output, values, on(s.log_weights), on(s.X.mean(axis=0, dtype=float)))
    verify(s, output, type(sums)(*(a if a is None else device.asnumpy(a) for a in sums)), ALLOWED)


# Rows of data and of queries, dimensions: at the edges of tiles of 64, within them and beyond; depths of all kinds.
SIZES = [(1, 1, 1), (63, 65, 3), (130, 5, 8), (150, 70, 9), (200, 70, 16), (64, 64, 17), (90, 66, 40), (130, 129, 64)]


@pytest.fixture
def wmma() -> ModuleType:
    return launcher("density.study_wmma")


@pytest.fixture
def launched(wmma: ModuleType, device: Backend, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if device.name == "emulated":
        from cukde.density.pairs.gpu import finish

        for module in (wmma, wmma.study_tf32):
            monkeypatch.setattr(module, "cp", finish.cp)  # memory that is not written stays NaN
    elif wmma.why_absent():
        pytest.skip(wmma.why_absent())
    return wmma


@pytest.mark.parametrize("output", ["sum", "moments"])
@pytest.mark.parametrize("depth", [8, 16, 24, 64])
@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a >= 80 and a not in LIKE_80])
def test_kernels_of_wmma_compile_without_spills(wmma: ModuleType, architecture: int, depth: int, output: str) -> None:
    if wmma.why_absent():
        pytest.skip(wmma.why_absent())
    code, options = core_compile.code(wmma.STEM, wmma.defines(output, depth)), core_compile.options(wmma.headers())
    taken = compile_for(architecture, code, options, wmma.NAMES[output])
    assert taken.spills == taken.stack == 0
    assert taken.shared <= 48 * 1024


def drawn(n: int, m: int, d: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Data, queries and bandwidth, in units that keep a density of 64 dimensions within float32."""
    rng = np.random.default_rng([n, m, d])
    X, Y = (0.1 * (3 + rng.standard_normal((rows, d)).astype(np.float32)) for rows in (n, m))
    return X, Y, 0.05 * d**0.5


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
def test_sums_by_wmma_match_the_reference(launched: ModuleType, device: Backend, n: int, m: int, d: int) -> None:
    X, Y, h = drawn(n, m, d)
    x, y = device.asarray(X), device.asarray(Y)
    p, score = device.asnumpy(launched.kde(x, y, h)), device.asnumpy(launched.score(x, y, h))
    assert (p.shape, p.dtype, score.shape, score.dtype) == ((m,), np.float32, (m, d), np.float32)
    check(np.abs(p / reference.kde(X, Y, h) - 1), np.asarray(WMMA["kde"].value), "density")
    error = h * np.linalg.norm(score - reference.score(X, Y, h), axis=1)
    check_score(error, np.asarray(WMMA["score"].value), reference.nearness(X, Y, h).reach)


def test_more_dimensions_than_fragments_are_refused(wmma: ModuleType) -> None:
    X = np.ones((3, 65), np.float32)
    for call in (wmma.kde, wmma.score):
        with pytest.raises(ValueError, match=r"at most 64 columns; got shape \(3, 65\)"):
            call(X, X, 1.0)
