"""The pass in TF32 operands that benchmarks measure against: it compiles without spills; its sums are the oracle's."""

from __future__ import annotations

from types import ModuleType

import pytest

from cukde.core.gpu import compile as core_compile
from cukde.density.sums import Output
from tests.compilation import ARCHITECTURES, LIKE_80, compile_for
from tests.conftest import Backend
from tests.density.samples import Sample, verify

ALLOWED = 1e-2  # 11 bits of z, r |z| 2^-12 of an exponent


@pytest.fixture
def tf32() -> ModuleType:
    pytest.importorskip("cupy", reason="the launcher needs CuPy: install the test extra")
    from benchmarks.density import study_tf32

    return study_tf32


@pytest.fixture
def launched(tf32: ModuleType, device: Backend, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if device.name == "emulated":
        from cukde.density.pairs.gpu import finish

        monkeypatch.setattr(tf32, "cp", finish.cp)
    return tf32


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a >= 80 and a not in LIKE_80])
def test_its_kernels_compile_without_spills(tf32: ModuleType, architecture: int) -> None:
    for kernel in set(tf32.specialisations()):
        code = core_compile.code(kernel.stem, kernel.defines)
        taken = compile_for(architecture, code, core_compile.options(), kernel.name)
        assert taken.spills == taken.stack == 0
        assert taken.shared <= 48 * 1024


@pytest.mark.parametrize("itself", [False, True], ids=["queries", "themselves"])
@pytest.mark.parametrize("d", [1, 5, 16, 40])
@pytest.mark.parametrize("output", ["sum", "laplace", "moments", "values"])
def test_sums_match_the_reference(launched: ModuleType, device: Backend, output: Output, d: int, itself: bool) -> None:
    s = Sample(150, 70, d, weighted=output != "values")
    if itself:
        s.Y = s.X
    on, k = device.asarray, 5
    Y = None if itself else on(s.Y)
    values = on(s.V[:, :k]) if output == "values" else None
    sums = launched.run(on(s.X), Y, s.h, output, values, on(s.log_weights), on(s.X.mean(axis=0, dtype=float)))
    verify(s, output, type(sums)(*(a if a is None else device.asnumpy(a) for a in sums)), ALLOWED)
